"""Nonconformity scores: constructors, parsing of their spelling, and registration of custom families."""

from pippin._compare.methods import Method, parse_method
from pippin._conformal.calibrate import score
from pippin._theory.formula import Family
from pippin._theory.scores import PAPER_SCORES as PAPER
from pippin._theory.scores import aps, ip, linear, margin, pip, raps, repip, saps, socop, topk
from pippin._theory.spelling import parse_score as parse
from pippin._theory.spelling import register

__all__ = ["PAPER", "Family", "Method", "aps", "ip", "linear", "margin", "parse", "parse_method", "pip", "raps"]
__all__ += ["register", "repip", "saps", "score", "socop", "topk"]
