"""`pippin evaluate` past memory: what is measured are counts, which are added up over batches."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pippin._conformal.evaluation import Evaluation
    from pippin._conformal.predictor import ConformalPredictor
    from pippin.tables.scanning import Scan


def evaluate_tables(
    predictor: "ConformalPredictor", source: "Scan", seed: int | None, non_empty: bool
) -> "tuple[Evaluation, bool]":
    """All metrics of the tables' rows, and whether most of these calibrated the predictor."""
    from pippin._distributed.evaluation import count_sets
    from pippin._engine.draws import generator_of
    from pippin._validation.batched import needed, watched
    from pippin._validation.labels import ColumnNumbers
    from pippin.cli.evaluate import scores_seen

    generator, seen, known, measured = generator_of(seed), scores_seen(predictor), 0, None
    needs = ("labels", "groups") if source.has_groups else ("labels",)
    for batch in watched(source, *needs):
        with batch.naming():
            truth = needed(batch.labels)
            beside: dict[str, Any] = {"groups": batch.groups} if "groups" in predictor.takes else {}
            sets = predictor.predict(batch.rows, seed=generator, nonempty=non_empty, **beside)
            found = count_sets(sets, batch.rows, truth, batch.groups)
        known += seen(batch.rows, ColumnNumbers(truth)) if seen else 0
        measured = found if measured is None else measured + found
    assert measured is not None
    return measured.without_ids().evaluation(predictor), 2 * known > measured.n
