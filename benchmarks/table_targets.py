"""One column told from the others, and rows drawn against real ones, on the tables of `tables.py`.

    python benchmarks/table_targets.py [--tables wine fair …] [--drawn]

Rows are split in two. One target: the last column of states, log loss on the second part, against
the better-known rivals, each at the better of its settings by cross-validation on the first part.
Drawn (`--drawn`): how well boosted trees tell the second part from as many drawn rows (AUC, cross-
validated; the mean of four draws, the least and the most of them), and how near drawn rows come to
rows that were learned from, over how near other real rows come (medians of Gower's distance to the
nearest one; below one: nearer than real rows are). One half says little of distances: `--halves 6`
takes six splits, and tells the standard error of their mean.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
import pandas as pd
from tables import Case, make_case, states_of, tables

DRAWS = 4  # of as many rows as the second part has: of small tables one says little
LEAST = 1e-4  # of a probability: one sure mistake must not decide


def two_parts(case: Case, share: float, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    order = np.random.default_rng(seed).permutation(len(case.truth))
    first = int(share * len(order))
    parts = (case.truth.iloc[some].reset_index(drop=True) for some in np.split(order, [first]))
    return next(parts), next(parts)


def latentia_of(case: Case, train: pd.DataFrame) -> Any:
    import latentia as lt

    kinds = dict.fromkeys(case.numbers, "continuous") | dict.fromkeys(case.states, "discrete")
    return lt.LatentModel(kinds=kinds).fit(train)


def log_loss(p: pd.DataFrame, truth: pd.Series) -> float:
    own = p.reindex(columns=sorted({*p.columns, *truth}), fill_value=0.0)
    told = own.to_numpy()[np.arange(len(truth)), own.columns.get_indexer(truth)]
    return float(-np.log(np.maximum(told, LEAST)).mean())


def say_logistic(case: Case, train: pd.DataFrame, test: pd.DataFrame, target: str) -> pd.DataFrame:
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    words = [c for c in case.states if c != target]
    coded = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), words), (StandardScaler(), case.numbers)
    )
    model = GridSearchCV(
        make_pipeline(coded, LogisticRegression(max_iter=1000)),
        {"logisticregression__C": [0.03, 0.3, 3.0]},
        scoring="neg_log_loss",
        cv=4,
        error_score=-99.0,
    ).fit(train.drop(columns=target), train[target])
    found = model.predict_proba(test.drop(columns=target))
    return pd.DataFrame(found, columns=model.classes_)


def say_boosted(case: Case, train: pd.DataFrame, test: pd.DataFrame, target: str) -> pd.DataFrame:
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.model_selection import GridSearchCV

    both = pd.concat([train, test])
    for c in case.states:
        both[c] = both[c] if c == target else pd.Categorical(both[c])
    X = both.drop(columns=target)
    model = GridSearchCV(
        HistGradientBoostingClassifier(categorical_features="from_dtype", early_stopping=False),
        {"max_iter": [25, 75], "learning_rate": [0.05, 0.1]},
        scoring="neg_log_loss",
        cv=4,
        error_score=-99.0,
    ).fit(X[: len(train)], train[target])
    return pd.DataFrame(model.predict_proba(X[len(train) :]), columns=model.classes_)


def one_target(case: Case, seed: int) -> dict[str, float]:
    """Log losses, and seconds of latentia."""
    train, test = two_parts(case, 0.7, seed)
    target = case.states[-1]
    began = time.process_time()
    model = latentia_of(case, train)
    told = model.predict_proba(test.drop(columns=target), target)
    spent = time.process_time() - began
    share = train[target].value_counts(normalize=True)
    return {
        "marginal": log_loss(pd.DataFrame([share] * len(test)), test[target]),
        "latentia": log_loss(pd.DataFrame(told, columns=states_of(model, target)), test[target]),
        "logistic": log_loss(say_logistic(case, train, test, target), test[target]),
        "boosted": log_loss(say_boosted(case, train, test, target), test[target]),
        "seconds": spent,
    }


def told_apart(case: Case, real: pd.DataFrame, drawn: pd.DataFrame) -> float:
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import roc_auc_score
    from sklearn.model_selection import cross_val_predict

    both = pd.concat([real, drawn])
    for c in case.states:
        both[c] = pd.Categorical(both[c])
    truth = np.repeat([0, 1], [len(real), len(drawn)])
    model = HistGradientBoostingClassifier(
        categorical_features="from_dtype", max_iter=60, random_state=0
    )
    said = cross_val_predict(model, both, truth, cv=5, method="predict_proba")[:, 1]
    return float(roc_auc_score(truth, said))


def nearest(case: Case, rows: pd.DataFrame, learned: pd.DataFrame) -> np.ndarray:
    """Gower's distance of each row to the nearest that was learned from."""
    total = np.zeros((len(rows), len(learned)))
    for c in case.numbers:
        width = max(float(learned[c].max() - learned[c].min()), 1e-300)
        total += np.abs(rows[c].to_numpy()[:, None] - learned[c].to_numpy()) / width
    for c in case.states:
        total += rows[c].to_numpy()[:, None] != learned[c].to_numpy()
    return np.asarray(total.min(axis=1) / len(rows.columns))


def drawn_rows(case: Case, seed: int) -> dict[str, float]:
    train, test = two_parts(case, 0.5, seed)
    model = latentia_of(case, train)
    levels, distances = [], []
    for draw in range(DRAWS):
        drawn = pd.DataFrame(model.sample(len(test), random_state=seed + draw))[list(test.columns)]
        drawn = drawn.astype(dict.fromkeys(case.numbers, float))
        levels.append(told_apart(case, test, drawn))
        distances.append(nearest(case, drawn, train))
    far, near = np.median(nearest(case, test, train)), np.concatenate(distances)
    return {
        "auc": float(np.mean(levels)),
        "least auc": min(levels),
        "most auc": max(levels),
        "nearest": float(np.median(near) / max(float(far), 1e-12)),
        "copies": float((near < 1e-12).mean()),
        "copies in real rows": float((nearest(case, test, train) < 1e-12).mean()),
    }


def over_halves(case: Case, first: int, halves: int) -> dict[str, float]:
    """Means over several splits, and the standard error of the distance."""
    found = pd.DataFrame([drawn_rows(case, seed) for seed in range(first, first + halves)])
    means = found.mean().to_dict()
    means["least auc"], means["most auc"] = found["least auc"].min(), found["most auc"].max()
    return {**means, "nearest error": float(found["nearest"].sem())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", nargs="*", default=None)
    parser.add_argument("--drawn", action="store_true")
    parser.add_argument("--halves", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    every = tables()
    heard = False
    for name in asked.tables or every:
        case = make_case(every[name](), "random", asked.seed)
        if not asked.drawn and not case.states:
            continue
        if asked.drawn and asked.halves > 1:
            found = over_halves(case, asked.seed, asked.halves)
        else:
            found = (drawn_rows if asked.drawn else one_target)(case, asked.seed)
        if not heard:
            print(",".join(["table", *found]))
            heard = True
        print(",".join([name, *(f"{x:.3f}" for x in found.values())]), flush=True)


if __name__ == "__main__":
    main()
