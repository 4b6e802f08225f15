"""The verdict on a step as the page shows it: the code, what was expected and what it got, and what to do."""

from __future__ import annotations

from markupsafe import Markup

from grader.base.results import Report, StepResult, total
from grader.report import page as report_page


def html(name: str, result: StepResult | None, source: str) -> str:
    """The right column of a step; what a learner's code wrote is escaped in it."""
    if result is None:
        return ""
    score, most = total([result])
    report = Report(
        submission="", seed=0, isolation=[], devices={}, score=score, max_score=most, steps=[result],
    )  # fmt: skip
    return str(Markup("<pre>{}</pre>").format(source)) + report_page.fragment(report, as_images=False)
