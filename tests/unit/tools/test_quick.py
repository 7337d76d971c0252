"""Which tests `make quick` runs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.quick import FAR, FILE_SECONDS, distances, module_of, nearest

IMPORTERS = {"log": {"partition"}, "partition": {"broker", "test_partition"}, "broker": {"partition", "test_broker"}}


def test_a_file_is_imported_by_the_name_of_its_module() -> None:
    assert module_of("api/kraft_http/app.py") == "kraft_http.app"
    assert module_of("kraft/storage/__init__.py") == "kraft.storage"


def test_distances_count_imports_also_through_circles() -> None:
    found = distances(IMPORTERS, ["log"])
    assert found == {"log": 0, "partition": 1, "broker": 2, "test_partition": 2, "test_broker": 3}


def test_a_module_that_nothing_imports_is_at_a_distance_to_itself_only() -> None:
    assert distances(IMPORTERS, ["new"]) == {"new": 0}


@given(
    st.dictionaries(st.text("abc", min_size=1), st.tuples(st.sampled_from((0, 1, 2, FAR)), st.floats(0, 10))),
    st.floats(0, 30),
)
def test_the_chosen_files_fit_and_no_nearer_file_that_would_fit_is_left_out(
    files: dict[str, tuple[int, float]], limit: float
) -> None:
    chosen = nearest(
        {path: far for path, (far, _) in files.items()}, {p: took for p, (_, took) in files.items()}, limit
    )
    spent = 0.0
    for path in sorted(files, key=lambda path: (*files[path], path)):
        fits = spent + FILE_SECONDS + files[path][1] <= limit + 1e-6
        assert (path in chosen) <= fits
        if path in chosen:
            spent += FILE_SECONDS + files[path][1]
        else:
            assert spent + FILE_SECONDS + files[path][1] >= limit - 1e-6
