"""Data to learn from: digits, a novel, spoken words, tensors of real training runs, your own files; all offline.

Sources, licences and how each file was made: ``data/README.md``. Needs numpy alone. MNIST and CIFAR-10 are fetched from
the network on first use (:mod:`lplab.datasets.downloads`), Fashion-MNIST by ``lplab fetch fashion-mnist`` or Debian's
package dataset-fashion-mnist, a language model by ``lplab fetch smollm2`` (:mod:`lplab.datasets.smollm2`).

>>> images, labels = digits()
>>> images.shape, images.dtype.name, labels[:5].tolist()
((1797, 8, 8), 'float32', [0, 1, 2, 3, 4])
"""

from lplab.datasets.bundled import character_ids, characters, data_folder, digits, spoken_words, words
from lplab.datasets.captured_tensors import Captured, captured
from lplab.datasets.downloads import cifar10, fashion_mnist, fetch_fashion_mnist, mnist
from lplab.datasets.saved_tensors import save_tensors
from lplab.datasets.smollm2 import fetch_smollm2, smollm2_file
from lplab.datasets.synthetic import cluttered_digits, digit_scenes
from lplab.datasets.tensor_files import load_tensors
from lplab.datasets.user_data import Split, from_arrays, from_files
from lplab.lookup import refuse_wrong_names

__all__ = [
    "Captured",
    "Split",
    "captured",
    "character_ids",
    "characters",
    "cifar10",
    "cluttered_digits",
    "data_folder",
    "digit_scenes",
    "digits",
    "fashion_mnist",
    "fetch_fashion_mnist",
    "fetch_smollm2",
    "from_arrays",
    "from_files",
    "load_tensors",
    "mnist",
    "save_tensors",
    "smollm2_file",
    "spoken_words",
    "words",
]

refuse_wrong_names(__name__)
