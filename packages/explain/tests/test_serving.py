"""The page on ports that serve models with other options than those of training, reproduced from their options."""

from __future__ import annotations

import pytest

from packages.explain.tests.serving import BEGIN, CASES, END, PAGE, Case, difference, explained, section

pytestmark = pytest.mark.skipif(not PAGE.exists(), reason="not the sources of the project")


def shown() -> str:
    return PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]


def line_of(number: int) -> str:
    """Return the line of `explain` that the page shows for a case."""
    return shown().split("```text\n")[number].partition("\n```")[0]


@pytest.mark.parametrize(("number", "case"), [*enumerate(CASES, 1)], ids=[case.title for case in CASES])
def test_page_says_what_the_port_computes(number: int, case: Case) -> None:
    assert section(number, case, line_of(number)) in shown(), "python -m packages.explain.tests.serving writes the page"
    assert all(any(each in line_of(number) for each in word.split("|")) for word in case.words)


@pytest.mark.costly
@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=pytest.mark.slow if case is CASES[0] else ()) for case in CASES],
    ids=[case.title for case in CASES],
)
def test_explain_names_what_the_port_computes(case: Case) -> None:
    found = explained(case)
    assert found.is_exact, str(found)
    assert all(any(each in str(found) for each in word.split("|")) for word in case.words), str(found)


def test_ports_are_as_far_from_training_as_was_measured_on_their_own_recordings() -> None:
    frames, expected, *_, cosine = difference(CASES[0])
    assert (frames - expected, round(cosine, 1)) == (3, 0.7)
    mean_of = [difference(case)[2] for case in CASES]
    assert mean_of[1] == pytest.approx(1.3, rel=0.1) and mean_of[4] == pytest.approx(0.008, rel=0.1)
