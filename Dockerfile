# For `lplab grade --in-container`: docker build -t lplab .
# It holds what grading needs and nothing else: no notebooks, no torch, no tools.
FROM python:3.12-slim AS wheel
COPY . /source
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels /source

FROM python:3.12-slim
COPY --from=wheel /wheels /wheels
COPY constraints.txt /wheels/
RUN pip install --no-cache-dir --constraint /wheels/constraints.txt "$(echo /wheels/lplab-*.whl)[course]"
ENV HOME=/tmp PYTHONDONTWRITEBYTECODE=1
USER nobody
