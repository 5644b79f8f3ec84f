"""Rows and columns of a call, as runs and as indices."""

import torch

from clearhead.pipeline.places import as_index, as_tensor, take


def test_places_along_an_axis(generator):
    tensor = torch.randn(3, 9, generator=generator)
    run = take(tensor, range(2, 5), axis=1)
    assert torch.equal(run, tensor[:, 2:5])
    assert run.data_ptr() == tensor[:, 2:].data_ptr()
    assert torch.equal(take(tensor, range(6, 0, -2), axis=1), tensor[:, [6, 4, 2]])
    assert torch.equal(take(tensor, torch.tensor([2, 2]), axis=0), tensor[[2, 2]])
    assert as_tensor(range(5, 0, -2), torch.device("cpu")).tolist() == [5, 3, 1]


def test_a_run_stays_one_where_it_costs_nothing():
    assert as_index(range(2, 5), torch.device("cpu")) == range(2, 5)
    assert as_index(torch.tensor([3, 1]), torch.device("cpu")).tolist() == [3, 1]
    assert as_index(range(2, 5), torch.device("meta")).shape == (3,)
