"""Checks the manifests beside this file, without a cluster or an account.

Fields and types: Kubernetes by the schemas in kubernetes-validate, KEDA and the Prometheus
operator by the models of cloudcoil, Cloud Run by Google's Go types (strict.go).
Values: those that must agree with each other, and the configuration of each
worker by the worker itself. The argument is the binary.
"""

import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import kubernetes_validate
import yaml
from cloudcoil.models.keda import v1alpha1 as keda
from cloudcoil.models.prometheus_operator import v1 as prometheus

HERE = Path(__file__).parent
ROOT = HERE.parent
# Newer than the clusters it is for, and older than what they will be.
KUBERNETES = "1.33"
# Read by Go itself, not by the configuration.
OTHERS = {"GOMEMLIMIT", "LOG_LEVEL", "EMULATOR_ADDR", "NO_PROXY"}
# Cloud Run's own, in seconds.
CLOUD_RUN_GRACE = 10


def main(binary: str) -> int:
    """Print every mistake; return how many there are."""
    mistakes = []
    for path in sorted(HERE.rglob("*.yaml")):
        if HERE / "chart" in path.parents:  # templates, see chart.py
            continue
        name = path.relative_to(ROOT)
        documents = [d for d in yaml.safe_load_all(path.read_text()) if d]
        if not documents:
            mistakes.append(f"{name}: empty")
        for document in documents:
            mistakes += [f"{name}: {m}" for m in shape(document)]
            print(f"{name}: {document['kind']} read")
    if mistakes:  # values are looked for where they should be
        return report(mistakes)
    # At once, because each waits for a doctor whose calls go nowhere.
    values = [partial(cloud_run, name) for name in ("cloud-run-job.yaml", "cloud-run-worker-pool.yaml")] + [kubernetes, compose]
    with ThreadPoolExecutor() as pool:
        for found in pool.map(lambda check: list(check(binary)), values):
            mistakes += found
    return report(mistakes)


def report(mistakes: list[str]) -> int:
    """Print the mistakes; return how many there are."""
    for mistake in mistakes:
        print("MISTAKE", mistake)
    return len(mistakes)


def shape(document: dict):
    """Yield what is wrong with fields and types."""
    kind, api = document["kind"], document["apiVersion"]
    if api.startswith("run.googleapis.com/"):
        done = subprocess.run(
            ["go", "run", "deploy/strict.go", kind], cwd=ROOT, input=json.dumps(document), text=True, capture_output=True, timeout=600
        )
        if done.returncode:
            yield done.stderr.strip()
    elif api.startswith(("keda.sh/", "monitoring.coreos.com/")):
        try:
            read = getattr(keda if api.startswith("keda") else prometheus, kind).model_validate(document)
        except ValueError as err:
            yield str(err)
            return
        # The models drop what they do not know, so that is what is missing here.
        yield from missing(document, json.loads(read.model_dump_json(by_alias=True, exclude_unset=True)), kind)
    else:
        try:
            kubernetes_validate.validate(document, KUBERNETES, strict=True)
        except kubernetes_validate.ValidationError as err:
            yield f"{'.'.join(map(str, err.path))}: {err.message}"


def missing(want, got, path: str):
    """Yield the fields of want that are not, or not the same, in got."""
    if isinstance(want, dict) and isinstance(got, dict):
        for key, value in want.items():
            if key in got:
                yield from missing(value, got[key], f"{path}.{key}")
            else:
                yield f"{path}.{key}: no such field"
    elif isinstance(want, list) and isinstance(got, list) and len(want) == len(got):
        for i, (w, g) in enumerate(zip(want, got)):
            yield from missing(w, g, f"{path}[{i}]")
    elif want != got:
        yield f"{path}: {want!r} is read as {got!r}"


def cloud_run(name: str, binary: str):
    """Yield what does not agree in a manifest for Cloud Run."""
    document = yaml.safe_load((HERE / name).read_text())
    spec = document["spec"]["template"]["spec"]
    spec = spec.get("template", {}).get("spec", spec)
    container = spec["containers"][0]
    env = {e["name"]: e.get("value", "") for e in container["env"]}
    yield from configuration(name, env, binary)
    if seconds(env["DRAIN_TIMEOUT"]) > CLOUD_RUN_GRACE - 2:
        yield f"{name}: DRAIN_TIMEOUT leaves less than 2 s of the {CLOUD_RUN_GRACE} s between SIGTERM and SIGKILL"
    need = int(env["PDF_MAX_MEMORY"]) + int(env["MAX_INPUT_BYTES"]) + (512 << 20)
    if size(container["resources"]["limits"]["memory"]) < need:
        yield f"{name}: memory is less than reader, input and worker need, {need >> 20} MiB"
    if document["kind"] == "Job":
        if int(spec["timeoutSeconds"]) < seconds(env["MAX_RUNTIME"]) + 30:
            yield f"{name}: the task ends less than 30 s after MAX_RUNTIME"
        if spec["maxRetries"] != 0:
            yield f"{name}: maxRetries is not 0"


def kubernetes(binary: str):
    """Yield what does not agree between the manifests for Kubernetes."""
    one = {d["kind"]: d for p in sorted((HERE / "kubernetes").glob("*.yaml")) for d in yaml.safe_load_all(p.read_text())}
    pod = one["Deployment"]["spec"]["template"]["spec"]
    container = pod["containers"][0]
    env = one["ConfigMap"]["data"] | {e["name"]: e.get("value", "") for e in container["env"]}
    yield from configuration("kubernetes", env, binary)
    if pod["terminationGracePeriodSeconds"] < seconds(env["DRAIN_TIMEOUT"]) + 30:
        yield "kubernetes: pods are killed less than 30 s after DRAIN_TIMEOUT"
    if seconds(env["DRAIN_TIMEOUT"]) < seconds(env["JOB_TIMEOUT"]) + 60:
        yield "kubernetes: DRAIN_TIMEOUT is less than a minute longer than JOB_TIMEOUT"
    need = int(env["PDF_MAX_MEMORY"]) + (512 << 20)
    if size(container["resources"]["limits"]["memory"]) < need:
        yield f"kubernetes: memory is less than reader and worker need, {need >> 20} MiB"
    work = next(v for v in pod["volumes"] if v["name"] == "work")
    if size(work["emptyDir"]["sizeLimit"]) <= int(env["MAX_INPUT_BYTES"]):
        yield "kubernetes: /work has no room for MAX_INPUT_BYTES"
    scaled, names = one["ScaledObject"], one["Deployment"]["metadata"]["name"]
    trigger = scaled["spec"]["triggers"][0]
    if scaled["spec"]["scaleTargetRef"]["name"] != names or "replicas" in one["Deployment"]["spec"]:
        yield "kubernetes: the ScaledObject does not alone decide on the Deployment"
    if trigger["authenticationRef"]["name"] != one["TriggerAuthentication"]["metadata"]["name"]:
        yield "kubernetes: the trigger refers to no TriggerAuthentication"
    if trigger["metadata"]["value"] != env.get("WORKER_SLOTS", "1"):
        yield "kubernetes: the trigger counts other than WORKER_SLOTS messages for each worker"
    if not trigger["metadata"]["subscriptionName"].endswith("/" + env["PUBSUB_SUBSCRIPTION"]):
        yield "kubernetes: the trigger looks at another subscription than the workers"
    if pod["serviceAccountName"] != one["ServiceAccount"]["metadata"]["name"]:
        yield "kubernetes: pods run as another account"


def compose(binary: str):
    """Yield what does not agree in docker-compose.yml."""
    text = re.sub(r"\$\{[A-Z_]+:-([^}]*)\}", r"\1", (ROOT / "docker-compose.yml").read_text())
    services = yaml.safe_load(text)["services"]
    worker, page = services["worker"], services["frontend"]
    yield from configuration("docker-compose.yml", worker["environment"], binary)
    if seconds(worker["stop_grace_period"]) < seconds(worker["environment"]["DRAIN_TIMEOUT"]) + 5:
        yield "docker-compose.yml: workers are killed less than 5 s after DRAIN_TIMEOUT"
    direct = worker["environment"]["NO_PROXY"].split(",")
    for variable in ("REDIS_HOST", "PUBSUB_EMULATOR_HOST"):
        if worker["environment"][variable].split(":")[0] not in direct:
            yield f"docker-compose.yml: a proxy would be asked for {variable}, NO_PROXY does not name it"
    if "pubsub" not in services["emulator"]["networks"]["default"]["aliases"] or "pubsub" not in direct:
        yield "docker-compose.yml: the emulator does not have the name pubsub as well"
    if "container_name" in worker or "ports" in worker:
        yield "docker-compose.yml: workers with a fixed name or port cannot be scaled"
    need = int(worker["environment"]["PDF_MAX_MEMORY"]) + (512 << 20)
    if size(worker["deploy"]["resources"]["limits"]["memory"] + "i") < need:
        yield f"docker-compose.yml: memory of a worker is less than it and its reader need, {need >> 20} MiB"
    for service, what in services.items():
        for port in what.get("ports", []):
            if not port.startswith("127.0.0.1:"):
                yield f"docker-compose.yml: {service} is open to the network: {port}"
        for mark in ("read_only", "cap_drop", "security_opt"):
            if not what.get(mark):
                yield f"docker-compose.yml: {service} has no {mark}"
        for other, how in what.get("depends_on", {}).items():
            if how["condition"] == "service_healthy" and "healthcheck" not in services[other]:
                yield f"docker-compose.yml: {service} waits for the health of {other}, which has no check"
    if worker["user"] != page["user"] or worker["volumes"][0] != page["volumes"][0]:
        yield "docker-compose.yml: workers and frontend do not share files"


def configuration(name: str, env: dict, binary: str):
    """Yield what a worker with this environment complains about, and names it does not know."""
    read = "".join((ROOT / "cli" / file).read_text() for file in ("env.go", "redisenv.go"))
    known = set(re.findall(r'envconfig:"([A-Z_]+)"', read)) | OTHERS
    yield from (f"{name}: {variable} is no variable of a worker" for variable in sorted(env.keys() - known))
    # The doctor reads the configuration as a worker does and exits with 2 if it
    # is wrong. It then looks for services at addresses on this machine alone.
    here = {"PATH": os.environ["PATH"], "REDIS_HOST": "127.0.0.1", "REDIS_PORT": "1", "PUBSUB_EMULATOR_HOST": "127.0.0.1:1",
            "STORAGE_EMULATOR_HOST": "127.0.0.1:1", "WORK_DIR": "", "LOCAL_STORAGE_PATH": "/dev/null/none"}
    done = subprocess.run([binary, "doctor"], cwd="/", env={k: str(v) for k, v in (env | here).items()}, text=True, capture_output=True, timeout=120)
    if done.returncode not in (0, 1):
        yield f"{name}: a worker would not start: {done.stderr.strip()}"


def seconds(text: str) -> float:
    """Read a duration such as 8s or 30m."""
    match = re.fullmatch(r"([0-9.]+)([smh])", text)
    if not match:
        raise SystemExit(f"not a duration: {text!r}")
    return float(match[1]) * {"s": 1, "m": 60, "h": 3600}[match[2]]


def size(text: str) -> int:
    """Read a size such as 512Mi."""
    match = re.fullmatch(r"([0-9]+)([MG]i)", text)
    if not match:
        raise SystemExit(f"not a size: {text!r}")
    return int(match[1]) << {"Mi": 20, "Gi": 30}[match[2]]


if __name__ == "__main__":
    sys.exit(1 if main(sys.argv[1]) else 0)
