# lspc without simulators: logs in, policy and report out. With Bullet: docker build --build-arg EXTRAS=data,deploy,bullet
#
#   docker build -t lspc .
#   docker run --rm -v "$PWD:/work" lspc fit logs.csv --budget 10 --out model
FROM python:3.11-slim
ARG EXTRAS=data,deploy
COPY pyproject.toml README.md LICENSE constraints.txt /source/
COPY src /source/src
# From the folder, for its name in --constraint; the source is not needed afterwards.
RUN pip install --no-cache-dir --constraint /source/constraints.txt "/source[${EXTRAS}]" && rm -r /source
WORKDIR /work
ENTRYPOINT ["lspc"]
CMD ["--help"]
