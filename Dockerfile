# Two images. `docker build -t lplab .` makes the one for `lplab grade --in-container`, the last one below.
# `docker build -t lplab-hub --target hub .` makes the one in which a JupyterHub starts the server of each student.
FROM python:3.12-slim AS wheel
COPY . /source
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels /source

# For a JupyterHub: JupyterLab, lplab, git for links of nbgitpuller. The labs come with such a link, or with a volume.
FROM python:3.12-slim AS hub
ARG JUPYTERHUB=5.5.4
RUN apt-get update && apt-get install -y --no-install-recommends git && rm -rf /var/lib/apt/lists/*
COPY binder/requirements.txt /wheels/
RUN pip install --no-cache-dir --requirement /wheels/requirements.txt
COPY constraints.txt /wheels/
RUN pip install --no-cache-dir --constraint /wheels/constraints.txt jupyterhub==$JUPYTERHUB nbgitpuller==1.3.0
COPY --from=wheel /wheels /wheels
RUN pip install --no-cache-dir --no-deps /wheels/lplab-*.whl && python -c "import lplab.widgets, torch"
# Any user of group 0 may write to the home folder: OpenShift starts containers as users that no image knows.
RUN useradd --create-home --uid 1000 --gid 0 student && chmod g=u /home/student
COPY binder/with_home /usr/local/bin/with_home
USER 1000
WORKDIR /home/student
ENV HOME=/home/student OMP_NUM_THREADS=1
ENTRYPOINT ["with_home"]
CMD ["jupyterhub-singleuser", "--ip=0.0.0.0"]

# For grading: what it needs and nothing else, no notebooks, no torch, no tools.
FROM python:3.12-slim AS grading
COPY --from=wheel /wheels /wheels
COPY constraints.txt /wheels/
RUN pip install --no-cache-dir --constraint /wheels/constraints.txt "$(echo /wheels/lplab-*.whl)[course]"
ENV HOME=/tmp PYTHONDONTWRITEBYTECODE=1
USER 65534:0
