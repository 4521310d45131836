"""Every error and warning of latentia: each says what was expected, what came, and what to do."""

from __future__ import annotations

from collections.abc import Iterable

from latentia.spelling import printable, shortened

__all__ = [
    "ColumnWarning",
    "ConstantColumnWarning",
    "ConvergenceWarning",
    "DataError",
    "DatasetError",
    "DateColumnWarning",
    "EffectWarning",
    "EvidenceError",
    "EvidenceWarning",
    "FeatureWarning",
    "FileError",
    "FormatError",
    "FrameError",
    "GraphError",
    "HolesWarning",
    "IdentifiabilityWarning",
    "IgnoredColumnWarning",
    "IndependenceWarning",
    "LatentiaError",
    "LatentiaWarning",
    "MissingLibraryError",
    "MomentsError",
    "NotLearnedError",
    "PlanError",
    "ImpossibleRowWarning",
    "UnknownStateWarning",
    "RangeWarning",
    "RepairWarning",
    "RestartWarning",
    "StoreError",
    "StatesWarning",
    "StructureError",
    "UnknownNameError",
    "WeightWarning",
]


class LatentiaError(Exception):
    """Every error of ours is one of these, and a ValueError, TypeError or KeyError besides."""

    def __str__(self) -> str:
        return printable(super().__str__(), keep="\n")  # names and states may hold anything


class GraphError(LatentiaError, ValueError):
    """The graph cannot be read or contradicts itself."""


class StructureError(LatentiaError, ValueError):
    """A junction tree that is none."""

    @classmethod
    def broken_intersection(cls, variable: int, homes: int, links: int) -> StructureError:
        return cls(
            f"running intersection broken: variable {variable} is in {homes} cliques tied together "
            f"by {links} tree edges; expected {homes - 1}. Rebuild the tree from its graph."
        )


class PlanError(LatentiaError, ValueError):
    """The graph is sound, but no plan can be made for it as asked."""


class DataError(LatentiaError, ValueError):
    """Rows that do not fit the model."""


class FileError(DataError, OSError):
    """A file of rows that cannot be read: damaged, cut off, or not what its name says."""


class FormatError(LatentiaError, ValueError):
    """A file of another tool that cannot be read, or a model that such a file cannot hold."""


class DatasetError(LatentiaError, OSError):
    """Public data that are not to be had, or are not what they should be."""


class MissingLibraryError(LatentiaError, ImportError):
    """An optional library that is not installed; says how to install it."""

    @classmethod
    def of(cls, what: str, library: str, extra: str) -> MissingLibraryError:
        return cls(
            f"{what} needs {library}, which is not installed: pip install 'latentia[{extra}]'"
        )


class FrameError(LatentiaError, TypeError):
    """A table of a kind that cannot be read."""


class MomentsError(LatentiaError, ValueError):
    """Sums that do not belong together."""


class EvidenceError(LatentiaError, ValueError):
    """A question that cannot be answered as asked."""


class NotLearnedError(LatentiaError, AttributeError):
    """Something that only other learners give."""


class StoreError(LatentiaError, ValueError):
    """A model that cannot be kept in a file, or a file that holds no model."""


class UnknownNameError(LatentiaError, KeyError):
    """A name or choice that is not there; lists the ones that are."""

    def __init__(self, what: str, got: object, known: Iterable[object], hint: str = "") -> None:
        names = [shortened(k) for k in known]
        shown = ", ".join(names[:20]) + (f", … ({len(names)} in all)" if len(names) > 20 else "")
        expected = f"expected one of: {shown}" if names else "there are none"
        self.message = f"{what} {shortened(got)} is unknown; {expected}." + (
            f" {hint}" if hint else ""
        )
        super().__init__(self.message)

    def __str__(self) -> str:
        return printable(self.message)


class LatentiaWarning(UserWarning):
    """Every warning of ours is one of these."""

    def __str__(self) -> str:
        return printable(super().__str__(), keep="\n")


class ColumnWarning(LatentiaWarning):
    """Columns that take no part in learning; its children tell why."""


class IgnoredColumnWarning(ColumnWarning):
    """Columns of the table that the graph does not name."""


class ConstantColumnWarning(ColumnWarning):
    """Columns with a single value, which cannot teach anything."""


class DateColumnWarning(ColumnWarning):
    """Columns of dates, each of which is read as a state of its own."""


class IdentifiabilityWarning(LatentiaWarning):
    """Some states of a latent cannot be told apart by what is observed."""


class FeatureWarning(IdentifiabilityWarning):
    """Columns could tell states apart, but their joint features would be too large."""


class ConvergenceWarning(LatentiaWarning):
    """Learning stopped before it came to rest."""


class WeightWarning(LatentiaWarning):
    """Weights look relative; they are read as frequencies."""


class EvidenceWarning(LatentiaWarning):
    """An answer rests on a stand-in; its children tell why."""


class RepairWarning(EvidenceWarning):
    """The signed model gave no positive probability: independence stands in."""


class ImpossibleRowWarning(EvidenceWarning):
    """Rows that have no probability under the model: marginals stand in."""


class UnknownStateWarning(EvidenceWarning):
    """Cells that hold no state of the model: they count as missing."""


class RangeWarning(EvidenceWarning):
    """Evidence lies beyond the values of training: the nearest of these stands in."""


class RestartWarning(LatentiaWarning):
    """Learning starts anew, and forgets rows that were learned from before."""


class IndependenceWarning(LatentiaWarning):
    """The columns tell nothing of each other that holds up on other rows."""


class LeftOutWarning(LatentiaWarning):
    """A candidate model, or some of the rows, took no part in learning."""


class StatesWarning(LatentiaWarning):
    """A latent has far more states than the data show, or far fewer."""


class StartsDisagreeWarning(LatentiaWarning):
    """The best of many starts stands alone: another seed might find other tables."""


class EffectWarning(LatentiaWarning):
    """An effect that the columns alone do not tell: it rests on what was learned of latents."""


class HolesWarning(LatentiaWarning):
    """Cells that are missing more often for some values of other columns than for others."""
