"""Taxi-like rows made from a seed, as CSV or TFRecord, for measurements of any size.

write_csv(Path("rows.csv"), 500_000)
write_records(Path("rows.csv"), Path("rows.tfrecord.gz"))
"""

from __future__ import annotations

import random
from pathlib import Path

LABEL = "label"
SHARES = (("train", 6), ("validation", 2), ("test", 2))
_COMPANIES = ("Taxi Affiliation Services", "Dispatch Taxi Affiliation", "Blue Ribbon, Inc.", "")


def write_csv(path: Path, rows: int) -> None:
    """Writes a CSV with numbers, texts, a quoted comma and missing cells."""
    chance = random.Random(5)
    with open(path, "w") as file:
        file.write("fare,trip_miles,trip_start_hour,company,payment_type,pickup_area,tips,label\n")
        for _ in range(rows):
            company = chance.choice(_COMPANIES)
            quoted = f'"{company}"' if "," in company else company
            area = "" if chance.random() < 0.2 else str(chance.randrange(77))
            file.write(
                f"{chance.uniform(3, 60):.2f},{chance.expovariate(0.3):.1f},{chance.randrange(24)},{quoted},"
                f"{chance.choice(('Cash', 'Credit Card'))},{area},"
                f"{chance.uniform(0, 9):.2f},{chance.randrange(2)}\n"
            )


def write_records(source: Path, target: Path) -> None:
    """Writes the rows of a CSV as gzipped Examples."""
    import tensorflow as tf

    from components.example_gen.readers import column_kinds, open_reader
    from components.example_gen.request import Request, Source, SplitPlan

    one = Source(str(source))
    request = Request((one,), "csv", SplitPlan("hash", SHARES), (), LABEL)
    read = open_reader(request, column_kinds(request))
    with tf.io.TFRecordWriter(str(target), tf.io.TFRecordOptions("GZIP")) as writer:
        for batch in read(one):
            for _, record in batch.records:
                writer.write(record)
