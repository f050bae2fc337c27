import numpy

from returnn.compat.util.debug_helpers import SimpleHdf, find_obj_in_stack
from returnn.datasets.hdf import SimpleHDFWriter


class _Wanted:
    pass


def test_objects_are_found_in_the_stack():
    wanted = _Wanted()

    def inner():
        return find_obj_in_stack(_Wanted, all_threads=False)

    assert inner() is wanted
    assert find_obj_in_stack(SimpleHdf, all_threads=False) is None


def test_sequences_of_a_file(tmp_path):
    filename = str(tmp_path / "x.hdf")
    random = numpy.random.RandomState(1)
    seqs = {f"seq-{i}": random.normal(size=(n, 3)).astype("float32") for i, n in enumerate((4, 2, 5))}
    writer = SimpleHDFWriter(filename, dim=3, extra_type={"classes": (5, 1, "int32")})
    for tag, frames in seqs.items():
        labels = numpy.arange(len(frames) - 1, dtype="int32")[None]
        writer.insert_batch(frames[None], [len(frames)], [tag], extra={"classes": labels})
    writer.close()
    hdf = SimpleHdf(filename)
    assert hdf.get_seq_tags() == list(seqs)
    assert hdf.num_seqs == 3
    for tag, frames in seqs.items():
        data = hdf.get_data_dict(hdf.seq_tag_to_idx[tag])
        numpy.testing.assert_array_equal(data["data"], frames)
        assert data["classes"].tolist() == list(range(len(frames) - 1))
