"""Checks the Helm chart in chart/, without a cluster.

Helm lints and renders it with the values in chart/ci. Fields and types of the result are
checked as those of the other manifests are (manifests.py). Names must lead somewhere, numbers
must agree with each other, and the program itself reads the configuration of its pods. Wrong
values must be refused with a reason. The arguments are helm and the binary.
"""

import inspect
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml
from manifests import KUBERNETES, ROOT, report, seconds, shape, size

CHART = ROOT / "deploy" / "chart"
VALUES = sorted((CHART / "ci").glob("*.yaml"))
# Read by Go itself and by commands, not by the configuration.
OTHERS = {"GOMEMLIMIT", "BATCHFLEET_CA_FILE"}
HARD = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
# What makes the first values wrong, and what the answer must have in it.
WRONG = [
    (["image.repository="], "image.repository is missing"),
    (["redis.url="], "redis.url and redis.host are missing: give one of them"),
    (["redis.host=redis"], "redis.url and redis.host contradict each other"),
    (["redis.url=redis://:hunter2@redis"], "redis.url has a user or a password: give them in redis.existingSecret"),
    (["redis.url=redis+cluster://a:1"], "redis.url is a cluster, and a gateway needs one server"),
    (["redis.url=redis:6379"], "at '/redis/url'"),
    (["storage.type=LOCAL"], "at '/storage/type': value must be one of 'GCP', 'S3'"),
    (["storage.bucket="], "storage.bucket is missing: workers.pdf reads inputs"),
    (["storage.existingSecret=keys"], "storage.existingSecret is for storage.type S3"),
    (["pubsub.project="], "pubsub.project is missing: workers.pdf has the source pubsub"),
    (["gateway.tls.existingSecret=", "gateway.tls.caKey="], "gateway.tls.existingSecret and gateway.trustedProxies are missing"),
    (["gateway.tls.existingSecret=", "gateway.trustedProxies={10.0.0.0/8}"], "gateway.tls.caKey is a key of gateway.tls.existingSecret"),
    (["gateway.trustedProxies={proxy}"], "at '/gateway/trustedProxies/0'"),
    (["gateway.tokens.clientKey="], "gateway.tokens.clientKey is missing: give it, or set gateway.openSubmission"),
    (["gateway.openSubmission=true"], "gateway.tokens.clientKey and gateway.openSubmission contradict each other"),
    (["gateway.tokens.existingSecret="], "gateway.tokens.existingSecret is missing"),
    (["gateway.env.SPOOL_DIR=/tmp"], "gateway.env.SPOOL_DIR: the chart sets this variable"),
    (["gateway.replicas=-1"], "at '/gateway/replicas': minimum: got -1, want 0"),
    (["workers.pdf.subscription="], "workers.pdf.subscription is missing"),
    (["workers.pdf.slots=0"], "at '/workers/pdf/slots': minimum: got 0, want 1"),
    (["workers.pdf.slots=many"], "at '/workers/pdf/slots': got string, want integer"),
    (["workers.pdf.slot=2"], "additional properties 'slot' not allowed"),
    (["workers.PDF.slots=2"], "invalid propertyName 'PDF'"),
    (["workers.pdf.processor=zpe"], "workers.pdf.processor is zpe, which is for the source redis"),
    (["workers.pdf.env.DRAIN_TIMEOUT=8s"], "workers.pdf.env.DRAIN_TIMEOUT: the chart sets this variable"),
    (["workers.pdf.env.REDIS_URL=x"], "workers.pdf.env.REDIS_URL: the chart sets this variable"),
    (["workers.pdf.env.lower=x"], "invalid propertyName 'lower'"),
    (["workers.pdf.keda.minReplicas=30"], "workers.pdf.keda.minReplicas is larger than maxReplicas"),
    (["workers.pdf.source=redis"], "workers.pdf.keda.triggers is missing"),
    (["workers.pdf.source=redis"], "workers.pdf.subscription is for the source pubsub"),
    (["workers.a.source=redis", "gateway.enabled=false"], "workers.a.source is redis, and gateway.enabled is false"),
    (["workers.a.source=redis", "workers.a.env.RESULT_TTL=1h"], "workers.a.env.RESULT_TTL: give it in gateway.env"),
    (["dashboard.api=http://gateway"], "at '/dashboard/api'"),
    (["gateway.enabled=false"], "dashboard.api is missing: give the https address of a server"),
    (["serviceMonitor.interval=often"], "at '/serviceMonitor/interval'"),
    (["fullnameOverride=Fleet"], "at '/fullnameOverride'"),
]


def test_d36_lint(helm: str, _: str):
    """Yield what helm finds wrong with the chart."""
    for values in VALUES:
        done = run(helm, "lint", "--strict", "--kube-version", KUBERNETES, "-f", values, CHART)
        if done.returncode:
            yield f"{values.name}: {done.stdout}{done.stderr}"


def test_d36_fields_and_types(helm: str, _: str):
    """Yield the fields that Kubernetes, KEDA and the Prometheus operator do not know."""
    for values in VALUES:
        documents = render(helm, values)
        kinds = sorted({d["kind"] for d in documents})
        print(f"deploy/chart with {values.name}: {len(documents)} objects read: {', '.join(kinds)}")
        for document in documents:
            yield from (f"{values.name}: {called(document)}: {m}" for m in shape(document))


def test_d36_names_lead_somewhere(helm: str, _: str):
    """Yield names in one object that no other object has."""
    for values in VALUES:
        documents = render(helm, values)
        have = {called(d) for d in documents}
        labels = [d["spec"]["template"]["metadata"]["labels"] for d in workloads(documents)]
        services = [d for d in documents if d["kind"] == "Service"]
        for document in documents:
            at = f"{values.name}: {called(document)}"
            spec = document.get("spec", {})
            match document["kind"]:
                case "Service" if not any(within(spec["selector"], of) for of in labels):
                    yield f"{at} selects no pods"
                case "PodDisruptionBudget" if not any(within(spec["selector"]["matchLabels"], of) for of in labels):
                    yield f"{at} selects no pods"
                case "ServiceMonitor" if not any(within(spec["selector"]["matchLabels"], s["metadata"]["labels"]) for s in services):
                    yield f"{at} selects no Service"
                case "ScaledObject":
                    target = f"{spec['scaleTargetRef']['kind']} {spec['scaleTargetRef']['name']}"
                    scaled = next((d for d in documents if called(d) == target), None)
                    if scaled is None or "replicas" in scaled["spec"]:
                        yield f"{at} does not alone decide on {target}"
                    for trigger in spec["triggers"]:
                        if "authenticationRef" in trigger and f"TriggerAuthentication {trigger['authenticationRef']['name']}" not in have:
                            yield f"{at} refers to no TriggerAuthentication"
                case "Deployment" | "StatefulSet":
                    yield from (f"{at} {m}" for m in pod(document, have, services))


def test_d36_numbers_agree(helm: str, _: str):
    """Yield memory, disk and times of workers that do not go together."""
    for values in VALUES:
        documents = render(helm, values)
        scaled = {d["spec"]["scaleTargetRef"]["name"]: d["spec"]["triggers"][0] for d in documents if d["kind"] == "ScaledObject"}
        for document in workloads(documents, "worker"):
            at, spec = f"{values.name}: {called(document)}", document["spec"]["template"]["spec"]
            env, slots = environment(document, documents), int(environment(document, documents)["WORKER_SLOTS"])
            if spec["terminationGracePeriodSeconds"] < seconds(env["DRAIN_TIMEOUT"]) + 30:
                yield f"{at} is killed less than 30 s after DRAIN_TIMEOUT"
            if "SOURCE" not in env and seconds(env["DRAIN_TIMEOUT"]) < seconds(env["JOB_TIMEOUT"]) + 60:
                yield f"{at}: DRAIN_TIMEOUT is less than a minute longer than JOB_TIMEOUT"
            need = slots * int(env.get("PDF_MAX_MEMORY") or env["QE_MAX_MEMORY"]) + (512 << 20)
            if size(spec["containers"][0]["resources"]["limits"]["memory"]) < need:
                yield f"{at} has less memory than its jobs and the worker need, {need >> 20} MiB"
            for work in (v for v in spec["volumes"] if v["name"] == "work"):
                if size(work["emptyDir"]["sizeLimit"]) <= slots * int(env["MAX_INPUT_BYTES"]):
                    yield f"{at}: /work has no room for MAX_INPUT_BYTES of each slot"
            trigger = scaled.get(document["metadata"]["name"])
            if trigger and trigger["type"] == "gcp-pubsub":
                if int(trigger["metadata"]["value"]) != slots:
                    yield f"{at}: the trigger counts other than WORKER_SLOTS messages for each worker"
                if trigger["metadata"]["subscriptionName"].split("/")[-1] != env["PUBSUB_SUBSCRIPTION"].split("/")[-1]:
                    yield f"{at}: the trigger looks at another subscription than the workers"


def test_d36_the_program_takes_the_configuration(helm: str, binary: str):
    """Yield what workers and gateways say against the configuration that the chart gives them."""
    known = set(re.findall(r'envconfig:"([A-Z0-9_]+)"', "".join(p.read_text() for p in (ROOT / "cli").rglob("*.go")))) | OTHERS
    for values in VALUES:
        documents = render(helm, values)
        for document in workloads(documents):
            at, env = f"{values.name}: {called(document)}", environment(document, documents)
            yield from (f"{at}: {variable} is no variable of the program" for variable in sorted(env.keys() - known))
            with tempfile.TemporaryDirectory() as here:
                env = on_this_machine(env, document, documents, Path(here))
                for mistake in started(document, binary, env, Path(here)):
                    yield f"{at}: {mistake}"


def test_d36_wrong_values_are_refused_with_a_reason(helm: str, _: str):
    """Yield the wrong values that helm takes, or refuses without the reason."""
    for wrong, says in WRONG:
        flags = [part for value in wrong for part in ("--set", value)]
        done = template(helm, VALUES[0], *flags)
        if done.returncode == 0:
            yield f"--set {' '.join(wrong)} is taken"
        elif says not in done.stderr:
            yield f"--set {' '.join(wrong)} is refused with {done.stderr.strip()!r}, want {says!r}"
        elif "hunter2" in done.stderr:
            yield f"--set {' '.join(wrong)}: the password is in the error"


def pod(document: dict, have: set, services: list):
    """Yield what is wrong with the pod of a workload: names without a thing, and rights."""
    spec = document["spec"]["template"]["spec"]
    container = spec["containers"][0]
    volumes = {v["name"] for v in spec["volumes"]} | {c["metadata"]["name"] for c in document["spec"].get("volumeClaimTemplates", [])}
    mounts = {m["name"] for m in container["volumeMounts"]}
    if volumes != mounts:
        yield f"has volumes {sorted(volumes)} and mounts {sorted(mounts)}"
    maps = [f["configMapRef"]["name"] for f in container.get("envFrom", [])] + [v["configMap"]["name"] for v in spec["volumes"] if "configMap" in v]
    yield from (f"refers to no ConfigMap {name}" for name in maps if f"ConfigMap {name}" not in have)
    if f"ServiceAccount {spec['serviceAccountName']}" not in have:
        yield "runs as an account that is not made"
    if spec["automountServiceAccountToken"] or not spec["securityContext"]["runAsNonRoot"] or container["securityContext"] != HARD:
        yield "has more rights than it needs"
    ports = {p["name"] for p in container["ports"]}
    for probe in ("livenessProbe", "readinessProbe"):
        if container[probe]["httpGet"]["port"] not in ports:
            yield f"has a {probe} of another port"
    of = document["spec"]["template"]["metadata"]["labels"]
    for service in services:
        if within(service["spec"]["selector"], of) and service["spec"]["ports"][0]["targetPort"] not in ports:
            yield f"has no port for {called(service)}"
    if not within(document["spec"]["selector"]["matchLabels"], of) or any("version" in k or "chart" in k for k in document["spec"]["selector"]["matchLabels"]):
        yield "selects its pods by labels that they lack or that change"
    if document["kind"] == "StatefulSet" and f"Service {document['spec']['serviceName']}" not in have:
        yield "refers to no Service"


def environment(document: dict, documents: list) -> dict:
    """Return the variables of a workload. Those from secrets and of the pod are made up."""
    container = document["spec"]["template"]["spec"]["containers"][0]
    env = {}
    for source in container.get("envFrom", []):
        env |= next(d["data"] for d in documents if called(d) == f"ConfigMap {source['configMapRef']['name']}")
    return env | {e["name"]: e.get("value", "made-up-0") for e in container.get("env", [])}


def on_this_machine(env: dict, document: dict, documents: list, here: Path) -> dict:
    """Return env with addresses and paths of this machine, and write the files it names below here."""
    env = dict(env) | {"PATH": os.environ["PATH"], "STORAGE_EMULATOR_HOST": "127.0.0.1:1", "PUBSUB_EMULATOR_HOST": "127.0.0.1:1"}
    for variable in ("REDIS_URL", "SOURCE"):
        if variable in env:
            scheme, rest = env[variable].split("://")
            hosts, slash, path = rest.partition("/")
            env[variable] = f"{scheme}://{','.join('127.0.0.1:1' for _ in hosts.split(','))}{slash}{path}"
    if "S3_ENDPOINT" in env:
        env["S3_ENDPOINT"] = "http://127.0.0.1:1"
    if "REDIS_HOST" in env:
        env |= {"REDIS_HOST": "127.0.0.1", "REDIS_PORT": "1"}
    for variable in ("SPOOL_DIR", "AGENT_DIR", "WORK_DIR"):
        if variable in env:
            env[variable] = str(here) + env[variable]
    (here / "work").mkdir()
    volumes = document["spec"]["template"]["spec"]["volumes"]
    for volume in (v for v in volumes if v["name"] == "kinds"):
        text = next(d["data"]["kinds.toml"] for d in documents if called(d) == f"ConfigMap {volume['configMap']['name']}")
        (here / "etc/batchfleet").mkdir(parents=True)
        (here / "etc/batchfleet/kinds.toml").write_text(text)
        if "KINDS_FILE" in env:
            env["KINDS_FILE"] = str(here / "etc/batchfleet/kinds.toml")
    return env


def started(document: dict, binary: str, env: dict, here: Path):
    """Yield why the program of a pod would not start with this environment."""
    container = document["spec"]["template"]["spec"]["containers"][0]
    command, *args = container["args"]
    if command == "worker":
        # The doctor reads the configuration as a worker does and exits with 2 if it is wrong.
        done = run(binary, "doctor", env=env, cwd=here)
        if done.returncode not in (0, 1):
            yield f"a worker would not start: {done.stdout}{done.stderr}"
        return
    known = run(binary, command, "--help").stdout
    if f"batchfleet {command} [flags]" not in known:
        print(f"NOT CHECKED: this binary has no command {command}")
        return
    yield from (f"{command} has no flag {arg.split('=')[0]}" for arg in args if arg.split("=")[0] + " " not in known)
    if command == "gateway":
        yield from gateway(binary, [a.replace("=/", f"={here}/") for a in args], env, here)


def gateway(binary: str, args: list[str], env: dict, here: Path):
    """Yield why a gateway would not start. It says what it refuses before it listens, so one bad port shows all else."""
    (here / "tls").mkdir()
    (here / "tokens" / "..data").mkdir(parents=True)
    run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", here / "tls/tls.key", "-out", here / "tls/tls.crt", "-days", "2", "-subj", "/CN=x", "-addext", "subjectAltName=DNS:x")
    for arg in args:
        if "-token-file=" in arg:
            Path(arg.split("=")[1]).write_text(os.urandom(32).hex())
            Path(arg.split("=")[1]).chmod(0o440)
        if arg.startswith("--job-tokens-file="):
            run(binary, "token", "new", "--file", arg.split("=")[1], "--name", "x", "--scope", "read", "--out", here / "x.token")
    addr = {"--addr=0.0.0.0:8080": "--addr=0.0.0.0:99999", "--metrics-addr=0.0.0.0:9090": "--metrics-addr=127.0.0.1:0"}
    done = run(binary, "gateway", *[addr.get(a, a) for a in args], env=env, cwd=here)
    if not re.fullmatch(r'batchfleet: --addr is "0.0.0.0:99999": want HOST:PORT, such as 127.0.0.1:8080\n', done.stderr):
        yield f"a gateway would not start: {done.stderr}"
    addr["--addr=0.0.0.0:8080"] = "--addr=127.0.0.1:0"
    with subprocess.Popen([binary, "gateway", *[addr.get(a, a) for a in args]], env=env, cwd=here, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        line = process.stdout.readline()
        process.terminate()
        if not line.startswith("gateway listens on"):
            yield f"a gateway does not start: {process.stderr.read()}"


def render(helm: str, values: Path) -> list:
    """Return the objects that the chart makes of values."""
    done = template(helm, values)
    if done.returncode:
        raise SystemExit(f"MISTAKE {values.name}: {done.stderr}")
    return [d for d in yaml.safe_load_all(done.stdout) if d]


def template(helm: str, values: Path, *flags: str):
    """Run helm template."""
    return run(helm, "template", "demo", CHART, "--kube-version", KUBERNETES, "-f", values, *flags)


def run(*command, **how):
    """Run a command and return what it says."""
    return subprocess.run([str(part) for part in command], text=True, capture_output=True, timeout=120, **how)


def workloads(documents: list, command: str = "") -> list:
    """Return what runs pods, or runs pods of a command."""
    pods = [d for d in documents if d["kind"] in ("Deployment", "StatefulSet")]
    return [d for d in pods if not command or d["spec"]["template"]["spec"]["containers"][0]["args"][0] == command]


def within(some: dict, all_of: dict) -> bool:
    """Report whether all_of has what some has."""
    return some.items() <= all_of.items()


def called(document: dict) -> str:
    """Return the kind and the name of an object."""
    return f"{document['kind']} {document['metadata']['name']}"


def main(helm: str, binary: str) -> int:
    """Print every mistake; return how many there are."""
    checks = [check for name, check in inspect.getmembers(sys.modules[__name__], inspect.isfunction) if name.startswith("test_")]
    return report([mistake for check in checks for mistake in check(helm, binary)])


if __name__ == "__main__":
    sys.exit(1 if main(sys.argv[1], sys.argv[2]) else 0)
