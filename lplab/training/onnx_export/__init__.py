"""A model under an inference recipe as an ONNX file, its roundings as QuantizeLinear and DequantizeLinear.

- ``onnx_types``: which formats ONNX has a type for.
- ``graph``: the ONNX graph while it is built.
- ``quantize_nodes``: a rule as a pair of QuantizeLinear and DequantizeLinear.
- ``operators``: the operators of PyTorch in terms of those of ONNX.
- ``export``: :func:`lplab.training.export_onnx`.
"""
