"""C headers compile without warnings, and compute the sets of Python to the bit."""

import ctypes
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

import pippin
from pippin._engine import dispatch
from pippin._validation.rows import as_rows
from pippin.export.c_header import c_header
from support.decisions import field
from support.engines import one_bound
from support.one_threshold import one_threshold
from support.rows import KINDS, drawn_labels, made_rows
from support.scores import EVERY_SCORE

GCC = ["gcc", "-std=c99", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror"]
STRICT = [*GCC, "-ffp-contract=off"]

INCLUDES = """\
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
"""
BODY = """
/* Reads rows of doubles, and u of each, until the input ends; prints size and classes; with an
   argument, also how long one object takes. */
int main(int argc, char **argv)
{
    static double rows[8192][PIPPIN_CLASSES], u[8192];
    size_t n = 0, i;
    while (n < 8192 && fread(&u[n], sizeof(double), 1, stdin) == 1
           && fread(rows[n], sizeof(double), PIPPIN_CLASSES, stdin) == PIPPIN_CLASSES)
        n++;
    if (argc > 1) {
        const long repeats = atol(argv[1]);
        long r, total = 0;
        int classes[PIPPIN_CLASSES];
        const clock_t start = clock();
        for (r = 0; r < repeats; r++)
            for (i = 0; i < n; i++)
                total += pippin_predict(rows[i], u[i], classes);
        printf("%.1f %ld\\n", 1e9 * (double)(clock() - start) / CLOCKS_PER_SEC / (double)n / (double)repeats, total);
        return 0;
    }
    for (i = 0; i < n; i++) {
        float narrow[PIPPIN_CLASSES];
        int *classes = malloc(sizeof(int) * PIPPIN_CLASSES);
        int k, size = pippin_predict(rows[i], u[i], classes);
        printf("%d", size);
        for (k = 0; k < size; k++)
            printf(" %d", classes[k]);
        for (k = 0; k < PIPPIN_CLASSES; k++)
            narrow[k] = (float)rows[i][k];
        printf(" float %d %s\\n", pippin_predict_float(narrow, u[i], classes), pippin_class_name(size - 1));
        free(classes);
    }
    return 0;
}
"""


def library(predictors, folder, flags=STRICT):
    """Compile the headers of several predictors as one shared library, with the prefixes pippin0, pippin1, …"""
    header, target = folder / "heads.h", folder / f"{len(list(folder.iterdir()))}.so"
    header.write_text("".join(c_header(predictor, f"pippin{i}") for i, predictor in enumerate(predictors)))
    defines = [f"-DPIPPIN{i}_API=" for i in range(len(predictors))]
    subprocess.run([*flags, *defines, "-shared", "-fPIC", "-x", "c", header, "-o", target], check=True)
    loaded = ctypes.CDLL(str(target))
    for i in range(len(predictors)):
        for name in ("predict", "predict_float"):
            getattr(loaded, f"pippin{i}_{name}").argtypes = [ctypes.c_void_p, ctypes.c_double, ctypes.c_void_p]
        getattr(loaded, f"pippin{i}_class_name").restype = ctypes.c_char_p
    return loaded


def found_sets(function, probs, u):
    """Return sizes and members of all rows."""
    classes = np.empty(probs.shape[1], np.int32)
    sizes, members = [], []
    for row, draw in zip(probs, u, strict=True):
        sizes.append(function(row.ctypes.data, draw, classes.ctypes.data))
        members.extend(classes[: sizes[-1]].tolist())
    return sizes, members


def assert_same(loaded, predictor, probs, u, prefix="pippin0"):
    function = getattr(loaded, f"{prefix}_predict" + ("" if probs.dtype == np.float64 else "_float"))
    sizes, members = found_sets(function, probs, u)
    wanted_sizes, wanted = dispatch.members(as_rows(probs), predictor.score, one_bound(predictor.threshold), u)
    np.testing.assert_array_equal(sizes, wanted_sizes)
    np.testing.assert_array_equal(members, wanted)


@pytest.mark.parametrize("score", EVERY_SCORE, ids=str)
def test_sets_are_the_cores_to_the_last_bit(score, tmp_path):
    """Sets in C equal those of Python for edge cases in double and float, with small and full sets."""
    rng = np.random.default_rng(0)
    cases = []
    for n_classes in (2, 12, 70):
        rows = np.concatenate([made_rows(kind, 30, n_classes, 1) for kind in KINDS])
        labels = drawn_labels(rows, rng)
        u = rng.random(len(rows))
        predictor = pippin.calibrate(rows, labels, score, 0.2, seed=0)
        endless = one_threshold(score, 0.1, float("inf"), 3, range(n_classes))
        cases += [(predictor, rows, u), (endless, rows, u)]
    loaded = library([predictor for predictor, _, _ in cases], tmp_path)
    for number, (predictor, rows, u) in enumerate(cases):
        for probs in (rows, rows.astype(np.float32)):
            assert_same(loaded, predictor, probs, u, f"pippin{number}")


@pytest.mark.parametrize("score", pippin.scores.PAPER, ids=str)
def test_real_data(score, tmp_path):
    """On the embedded example and CIFAR-10, sets of half of the rows equal those of Python."""
    example, images = pippin.load_example(), np.load(Path(__file__).parents[1] / "data" / "cifar10_vgg16.npz")
    for probs, labels in ((example.probs, example.labels), (images["probs"], images["labels"])):
        predictor = pippin.calibrate(probs[::2], labels[::2], score, seed=0)
        rest, u = probs[1::2].copy(), np.random.default_rng(1).random(len(probs[1::2]))
        assert_same(library([predictor], tmp_path), predictor, rest, u)


@pytest.mark.parametrize("score", ["raps", "pip(beta=0.5)"])
def test_a_compiler_that_likes_to_fuse_is_kept_from_it(score, tmp_path):
    """GNU C with fused multiply-add enabled by default computes scores exactly, because of the pragma."""
    chosen = pippin.scores.parse(score)
    probs = made_rows("spread", 30, 12, 2)
    u = np.random.default_rng(5).random(30)
    labels = np.argsort(-probs, axis=1)[np.arange(30), 4 + np.arange(30) % 5]
    scores = dispatch.label_scores(as_rows(probs), labels, chosen, u)
    thresholds = [float(t) for s in scores for t in (s, np.nextafter(s, -9))]
    heads = [one_threshold(chosen, 0.1, threshold, 30, range(12)) for threshold in thresholds]
    (tmp_path / "heads.c").write_text("".join(c_header(head, f"head{i}") for i, head in enumerate(heads)))
    apis = [f"-DHEAD{i}_API=" for i in range(60)]
    fusing = ["gcc", "-std=gnu11", "-O2", "-march=native", "-ffp-contract=fast", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([*fusing, *apis, "-shared", "-fPIC", "heads.c", "-o", "heads.so"], check=True, cwd=tmp_path)
    loaded = ctypes.CDLL(str(tmp_path / "heads.so"))
    for i, head in enumerate(heads):
        function = loaded[f"head{i}_predict"]
        function.argtypes = [ctypes.c_void_p, ctypes.c_double, ctypes.c_void_p]
        row = slice(i // 2, i // 2 + 1)
        wanted = dispatch.members(as_rows(probs[row]), chosen, one_bound(head.threshold), u[row])[1]
        assert (labels[i // 2] in wanted) == (i % 2 == 0)
        assert found_sets(function, probs[row], u[row])[1] == wanted.tolist()


def test_sanitizers_find_nothing(tmp_path):
    """The address and undefined-behavior sanitizers find nothing, for all scores and for invalid rows."""
    data = pippin.load_example()
    probs = np.concatenate([data.probs[:300].astype(np.float64), np.full((1, 12), np.nan), np.zeros((1, 12))])
    u = np.random.default_rng(1).random(302)
    heads = [pippin.calibrate(data.probs, data.labels, score, seed=0, classes=data.classes) for score in EVERY_SCORE]
    headers = [c_header(head, f"head{i}") for i, head in enumerate(heads)]
    mains = [
        BODY.replace("pippin_", f"head{i}_").replace("PIPPIN_", f"HEAD{i}_").replace("main", f"main{i}")
        for i in range(len(heads))
    ]
    cases = "\n".join(f"    case {i}: return main{i}(1, argv);" for i in range(len(heads)))
    chosen = f"switch (atoi(argv[argc - 1])) {{\n{cases}\n    }}\n    return 1;"
    main = f"int main(int argc, char **argv)\n{{\n    {chosen}\n}}\n"
    (tmp_path / "all.c").write_text(INCLUDES + "".join((*headers, *mains)) + main)
    checked = [*STRICT, "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    subprocess.run([*checked, "all.c", "-o", "all"], check=True, cwd=tmp_path)
    for i, head in enumerate(heads):
        given = np.column_stack([u, probs]).tobytes()
        run = subprocess.run([tmp_path / "all", str(i)], input=given, capture_output=True)
        assert (run.returncode, run.stderr) == (0, b"")
        lines = [line.split(" float ") for line in run.stdout.decode().splitlines()]
        sizes, members = dispatch.members(as_rows(probs[:300]), head.score, one_bound(head.threshold), u[:300])
        ends = np.cumsum(sizes)
        for (first, second), size, end in zip(lines[:300], sizes, ends, strict=True):
            assert [int(x) for x in first.split()] == [size, *members[end - size : end]]
            assert second.split()[1:] == ([data.classes[size - 1]] if size else [])
        assert [line[0] for line in lines[300:]] == ["-1", "-1"]


def program(predictor, folder, flags):
    (folder / "head.h").write_text(c_header(predictor))
    (folder / "main.c").write_text(f'{INCLUDES}#include "head.h"\n{BODY}')
    subprocess.run([*flags, "main.c", "-o", "main"], check=True, cwd=folder)
    return folder / "main"


def test_how_long_one_object_takes(tmp_path, capsys):
    """Print the time per object."""
    data = pippin.load_example()
    predictor = pippin.calibrate(data.probs, data.labels, "repip")
    given = np.column_stack([np.zeros(len(data.probs)), data.probs]).astype(np.float64).tobytes()
    binary = program(predictor, tmp_path, STRICT)
    run = subprocess.run([binary, "20"], input=given, capture_output=True, check=True)
    nanoseconds, total = run.stdout.split()
    assert int(total) == 20 * predictor.predict(data.probs).sizes.sum()
    with capsys.disabled():
        print(f"\nC, K = 12: {float(nanoseconds):.0f} ns per object", end=" ")


def test_rows_that_are_no_distribution(tmp_path):
    """C returns −1 for rows that Python refuses."""
    loaded = library([one_threshold(pippin.scores.pip(), 0.1, 1.0, 9, range(3))], tmp_path)
    rows = [[0.5, 0.5, np.nan], [1.2, -0.2, 0.0], [0.5, 0.4, 0.09], [np.inf, 0, 0], [0.5, 0.4, 0.1005]]
    assert found_sets(loaded.pippin0_predict, np.array(rows), np.zeros(5))[0] == [-1, -1, -1, -1, 1]


def test_u_is_not_looked_at_without_need(tmp_path):
    """Without randomization the set does not depend on u, not even for NaN."""
    loaded = library([one_threshold(pippin.scores.repip(), 0.1, 1.2, 9, range(3))], tmp_path)
    rows = np.tile([0.5, 0.4, 0.1], (2, 1))
    assert found_sets(loaded.pippin0_predict, rows, [0.0, np.nan])[0] == [2, 2]


def test_names_reach_c_whatever_they_hold(tmp_path):
    """Names reach C unchanged: quotes, backslashes, trigraphs, line breaks, digits after an escape, other alphabets."""
    names = ('a"b', "c\\d", "??=e", "\n7", "maïs 7", "крот", "%s", "*/")
    predictor = one_threshold(pippin.scores.ip(), 0.1, 0.6, 9, names)
    loaded = library([predictor], tmp_path)
    assert [loaded.pippin0_class_name(k).decode() for k in range(8)] == list(names)
    assert loaded.pippin0_class_name(8) == loaded.pippin0_class_name(-1) == b""


def test_the_header_needs_nothing(tmp_path):
    """The header includes nothing and calls only its own functions; two headers fit in one program."""
    predictor = one_threshold(pippin.scores.raps(), 0.1, 0.6, 9, range(5))
    text = c_header(predictor)
    assert "#include" not in text
    code = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    called = set(re.findall(r"\b([a-z_]+)\(", code)) - {"if", "for", "defined", "optimize"}
    assert all(name.startswith("pippin_") for name in called)
    (tmp_path / "a.h").write_text(c_header(predictor, "a"))
    (tmp_path / "b.h").write_text(c_header(predictor, "b"))
    (tmp_path / "x.c").write_text('#include "a.h"\n#include "b.h"\nint main(void) { return 0; }\n')
    subprocess.run([*STRICT, "x.c", "-o", "x"], check=True, cwd=tmp_path)
    with pytest.raises(ValueError, match="Expected a prefix of letters"):
        c_header(predictor, "a-b")


CPP = ["g++", "-std=c++17", "-x", "c++", *GCC[2:]]


@pytest.mark.parametrize("compiler", [STRICT, CPP], ids=["C99", "C++17"])
def test_two_models_live_in_one_program(compiler, tmp_path):
    """Headers of a predictor and a decider work in one C or C++ program; an equal prefix is an error."""
    data, utility = field()
    predictor = pippin.calibrate(data.probs, data.labels, "ip", classes=data.classes, groups=np.arange(4986) % 3)
    decider = pippin.decisions.calibrate(
        data.probs, data.labels, utility, {"weed": 0.1, "crop": 0.05}, per="kind", classes=data.classes
    )
    (tmp_path / "sets.h").write_text(c_header(predictor, "sets"))
    (tmp_path / "acts.h").write_text(c_header(decider, "acts"))
    (tmp_path / "x.c").write_text(BOTH)
    subprocess.run([*compiler, "x.c", "-o", "x", "-lm"], check=True, cwd=tmp_path)
    run = subprocess.run([tmp_path / "x"], capture_output=True, text=True, check=True)
    row = np.full(12, 0.01)
    row[data.classes.index("maize")] = 0.89
    decision = decider.decide_one(row)
    assert run.stdout == f"1 maize crop 0.05 {decision.action} {decision.certificate:g} {decision.action}\n"
    (tmp_path / "acts.h").write_text(c_header(decider, "sets"))
    done = subprocess.run([*compiler, "x.c", "-o", "x"], capture_output=True, text=True, cwd=tmp_path)
    assert "another header has the same prefix, export one of them with --prefix NAME" in done.stderr
    (tmp_path / "x.c").write_text('#include "sets.h"\n#include "sets.h"\nint main(void) { return 0; }\n')
    subprocess.run([*compiler, "x.c", "-o", "x"], check=True, cwd=tmp_path)


BOTH = """
#include "sets.h"
#include "acts.h"
#include <stdio.h>
#include <math.h>
/* Uses the constants of the headers, and no group that is unknown. */
int main(void)
{
    double row[SETS_CLASSES], logits[SETS_CLASSES], certificate;
    int classes[SETS_CLASSES], k, size, action;
    for (k = 0; k < SETS_CLASSES; k++)
        row[k] = k == ACTS_CLASS_MAIZE ? 0.89 : 0.01;
    for (k = 0; k < SETS_CLASSES; k++)
        logits[k] = log(row[k]);
    size = sets_predict(row, 0.0, SETS_GROUP_2, classes);
    printf("%d %s %s %g ", size, sets_class_name(classes[0]), acts_kind_name(acts_kind(classes[0])), ACTS_ALPHA_CROP);
    action = acts_decide(row, &certificate);
    printf("%s %g ", acts_action_name(action), certificate);
    printf("%s\\n", acts_decide_logits(logits, 0) == ACTS_ACTION_LEAVE ? "leave" : "other");
    return ACTS_KIND_WEED + ACTS_KIND_CROP + ACTS_KINDS == 3 && SETS_CLASS_MAIZE == ACTS_CLASS_MAIZE ? 0 : 1;
}
"""


def test_constants_are_identifiers_whatever_names_hold(tmp_path):
    """Names with equal letters, without letters and beginning with a digit have different constants."""
    names = ("a b", "A-B", "a_b", "крот", "*/", "7 up", "été", "int", "")
    text = c_header(one_threshold(pippin.scores.ip(), 0.1, 0.6, 9, names), "x")
    found = re.findall(r"#define X_CLASS_(\w+) (\d+)", text)
    wanted = ["A_B", "A_B_1", "A_B_2", "_3", "_4", "7_UP", "ETE", "INT", "_8"]
    assert found == [(name, str(number)) for number, name in enumerate(wanted)]
    (tmp_path / "x.c").write_text(f"{text}\nint main(void) {{ return X_CLASS__8; }}\n")
    for compiler in (STRICT, CPP):
        subprocess.run([*compiler, "x.c", "-o", "x"], check=True, cwd=tmp_path)


def test_logits_get_the_softmax_of_python(tmp_path):
    """Sets of a thousand rows of logits in double and float equal those of Python; rows that it refuses give −1."""
    rng = np.random.default_rng(5)
    for n_classes in (2, 12, 150):
        logits = rng.normal(0, 4, (1000, n_classes))
        logits[:20, 1] = -np.inf
        predictor = pippin.calibrate(logits, rng.integers(0, n_classes, 1000), "repip", from_logits=True)
        loaded = library([predictor], tmp_path)
        for name, kind in (("predict_logits", np.float64), ("predict_logits_float", np.float32)):
            function = getattr(loaded, f"pippin0_{name}")
            function.argtypes = [ctypes.c_void_p, ctypes.c_double, ctypes.c_void_p]
            rows = logits.astype(kind)
            sets = predictor.predict(rows, from_logits=True)
            sizes, members = found_sets(function, rows, np.zeros(1000))
            differ = [i for i in range(1000) if sizes[i] != sets.sizes[i]]
            scores = pippin.scores.score(rows, None, "repip", from_logits=True)
            assert np.abs(scores[differ] / predictor.threshold - 1).min(axis=1, initial=1).max(initial=0) < 1e-14
            assert differ or members == sets.members.tolist()
            wrong = np.array([[np.nan] * n_classes, [np.inf] * n_classes, [-np.inf] * n_classes], dtype=kind)
            assert found_sets(function, wrong, np.zeros(3))[0] == [-1, -1, -1]


def test_stack_and_tables_are_at_most_those_in_the_comment(tmp_path):
    """The compiler's own figures of stack, summed over a chain of calls, for sets and actions, sharpened or not."""
    data, utility = field()
    sharpener = pippin.sharpen(data.probs[:400], data.labels[:400], classes=data.classes)
    rows, options = (data.probs[400:], data.labels[400:]), {"classes": data.classes, "sharpen": sharpener}
    heads = [pippin.calibrate(*rows, "socop", **options), pippin.calibrate(*rows, "ip", classes=data.classes)]
    heads += [pippin.decisions.calibrate(*rows, utility, per="class", **options)]
    heads += [pippin.decisions.calibrate(*rows, utility, classes=data.classes)]
    for head in heads:
        text = c_header(head)
        stack, tables = (int(re.search(rf"{word}: (?:at most )?([\d,]+) bytes", text)[1].replace(",", ""))
                         for word in ("Stack", "tables"))  # fmt: skip
        call = "decide_logits_float(x, &y)" if "pippin_decide" in text else "predict_logits_float(x, 0.5, z)"
        main = "int use(const float *x, double y, int *z);\nint use(const float *x, double y, int *z)\n{\n"
        main += f"    (void)z;\n    return pippin_{call} + (y > 0.0);\n}}\n"
        (tmp_path / "x.c").write_text(f"{text}\n{main}")
        subprocess.run([*STRICT, "-fstack-usage", "-c", "x.c", "-o", "x.o"], check=True, cwd=tmp_path)
        used = [int(line.split("\t")[1]) for line in (tmp_path / "x.su").read_text().splitlines()]
        assert (stack / 3 if head.sharpeners else 0) < sum(used) <= stack
        size = subprocess.run(["size", "x.o"], capture_output=True, text=True, check=True, cwd=tmp_path).stdout
        code, changing, zeroed = map(int, size.splitlines()[1].split()[:3])
        assert changing == zeroed == 0  # nothing but code and constants
        assert code < tables + 12_000


def test_the_command_writes_a_header(tmp_path):
    """`pippin export --c` writes the header, with the names of --prefix."""
    from typer.testing import CliRunner

    from pippin.cli import app

    predictor = one_threshold(pippin.scores.repip(), 0.1, 1.25, 9, ("crop", "weed"))
    predictor.save(tmp_path / "p.json")
    done = CliRunner().invoke(app, ["export", str(tmp_path / "p.json"), "--c", str(tmp_path / "head.h")])
    assert done.exit_code == 0
    assert (tmp_path / "head.h").read_text() == c_header(predictor)
    line = ["export", str(tmp_path / "p.json"), "--c", str(tmp_path / "head.h"), "--prefix"]
    assert CliRunner().invoke(app, [*line, "left_arm"]).exit_code == 0
    assert (tmp_path / "head.h").read_text() == c_header(predictor, "left_arm")
    refused = CliRunner().invoke(app, [*line, "left-arm"])
    assert "Expected a prefix of letters, digits and _, got 'left-arm'" in str(refused.exception)
