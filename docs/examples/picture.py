"""A picture of each utterance's features: picture.py FEATS_SCP PNG; without matplotlib, a line that says so."""

import sys

import io_ark


def main(script: str, png: str) -> None:
    try:
        import matplotlib
    except ModuleNotFoundError:
        print("  (no picture: matplotlib is not installed)")
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    with io_ark.SequentialReader(f"scp:{script}", kind="matrix") as reader:
        utterances = dict(reader)
    figure, rows = pyplot.subplots(len(utterances), figsize=(10, 2 * len(utterances)), squeeze=False)
    for (axes,), (key, feats) in zip(rows, utterances.items(), strict=True):
        image = axes.imshow(feats.T, origin="lower", aspect="auto", interpolation="nearest")
        axes.set_title(key, fontsize="small")
        axes.set_ylabel("mel bin")
        figure.colorbar(image, ax=axes, label="log energy")
    rows[-1][0].set_xlabel("frame (10 ms)")
    figure.tight_layout()
    figure.savefig(png, dpi=100)
    print(f"  {png}: a picture of them")


if __name__ == "__main__":
    main(*sys.argv[1:])
