#!/usr/bin/env bash
# Puts the sandbox service on Cloud Run: ./infra/gcp/deploy-sandbox.sh --help
set -euo pipefail
HERE=$(CDPATH='' cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ROOT=$(CDPATH='' cd "$HERE/../.." && pwd)
SELF=deploy-sandbox.sh MODE=act

usage() {
  cat <<'END'
usage: infra/gcp/deploy-sandbox.sh [--dry-run] [PHASE]

Puts the sandbox service (opendoor-sandbox) on Cloud Run, in a network that leads
nowhere. Run it again at any time: what is there is not made again, and after a
failure it goes on where it stopped. It needs gcloud (logged in), openssl, Node.js.

Phases; all of them, one after the other, without PHASE:
  prepare    APIs, network, firewall, blackhole DNS, accounts, token, image repository
  build      the image, with Docker here or with Cloud Build (which then does the rest)
  revision   the new revision, without traffic (a first one: callable by its owners alone)
  smoke      infra/gcp/smoke.sh against it: from inside the jail, nothing may be reachable
  traffic    only now it gets all the traffic and the one tag, "proven", and callers their right
             to call; alone it wants SANDBOX_REVISION, the one that the smoke test called shut
  check      changes nothing: is everything there that prepare makes?

  --dry-run  reads, and says what it would change
  --help

Settings, from the environment:
  PROJECT_ID             default: gcloud's project
  REGION                 us-central1
  SANDBOX_BUILD          docker, cloud; default: docker where a Docker daemon answers
  SANDBOX_IMAGE          a ready image (NAME@sha256:...) instead of a build
  SANDBOX_AUTH           iam: callers need roles/run.invoker and the token (default)
                         token: the URL is public, and the token alone guards it
  SANDBOX_INGRESS        all, internal, internal-and-cloud-load-balancing (default all)
  SANDBOX_CONCURRENCY    4 runs at a time in an instance
  SANDBOX_PARKED         as many cells of each language wait for a run
  SANDBOX_CPU            2
  SANDBOX_MEMORY         2Gi, of which the runs together may have
  SANDBOX_TOTAL_MEMORY_MB  1024, and one of them
  SANDBOX_MAX_MEMORY_MB  512
  SANDBOX_MIN_INSTANCES  0: nothing to pay without traffic, and a cold start after it
  SANDBOX_MAX_INSTANCES  10: what a flood can cost
  SANDBOX_CPU_ALWAYS     0; 1 pays for CPU between requests too (docs/scaling.md)
  SANDBOX_BINARY_AUTHORIZATION  empty, or the policy's name (default)
END
}

DRY=0 PHASE=all
for argument in "$@"; do
  case $argument in
    --help | -h) usage && exit 0 ;;
    --dry-run) DRY=1 ;;
    prepare | build | revision | smoke | traffic | check) PHASE=$argument ;;
    *) usage >&2 && exit 2 ;;
  esac
done
[ "$DRY" = 0 ] || MODE=dry
[ "$PHASE" != check ] || MODE=check

# shellcheck source=infra/gcp/common.sh
. "$HERE/common.sh"
# shellcheck source=infra/gcp/prepare.sh
. "$HERE/prepare.sh"

# What the new revision is made with; Cloud Build gets them as they are.
SETTINGS=()
for name in CONCURRENCY PARKED CPU MEMORY TOTAL_MEMORY_MB MAX_MEMORY_MB MIN_INSTANCES MAX_INSTANCES CPU_ALWAYS BINARY_AUTHORIZATION; do
  name=SANDBOX_$name
  [ -z "${!name:-}" ] || SETTINGS+=("$name=${!name}")
  # A comma would be a setting more to gcloud.
  case ${!name:-} in *[!A-Za-z0-9._/-]*) fail "$name is '${!name}'; it is made of letters, digits and . _ / -" ;; esac
done

CONCURRENCY=${SANDBOX_CONCURRENCY:-4}
# The service refuses longer runs than this; Cloud Run gives up 5 s later.
MAX_TIMEOUT_MS=10000

# ---- build ----

image_tag() {
  local commit
  if commit=$(git -C "$ROOT" rev-parse --short=12 HEAD 2>/dev/null) && [ -z "$(git -C "$ROOT" status --porcelain)" ]; then
    printf '%s' "$commit"
  else
    date -u +t%Y%m%d%H%M%S
  fi
}

digest_of() { # TAG; an empty repository is an error to gcloud, and no image either
  gcloud artifacts docker images list "$IMAGES/sandbox" --include-tags --filter="tags:$1" --limit=1 \
    --format='value(version)' 2>/dev/null || true
}

build_with_docker() { # TAG
  need docker 'Or: SANDBOX_BUILD=cloud'
  change gcloud auth configure-docker "$REGION-docker.pkg.dev"
  change docker build --pull --platform=linux/amd64 -f "$ROOT/apps/sandbox/Dockerfile" -t "$IMAGES/sandbox:$1" "$ROOT"
  change docker push "$IMAGES/sandbox:$1"
}

# Everything else happens there, by this very script.
build_with_cloud() { # TAG
  change gcloud builds submit "$ROOT" --config="$HERE/cloudbuild.sandbox.yaml" \
    --substitutions="_REGION=$REGION,_TAG=$1,_AUTH=$SANDBOX_AUTH,_INGRESS=$SANDBOX_INGRESS,_SETTINGS=${SETTINGS[*]-}"
  STEP=''
  if [ "$MODE" = act ]; then say 'Cloud Build has built, deployed and proven it, and given it the traffic.'; fi
  exit 0
}

# Is there a code-jail here for the smoke test? Cloud Build has one.
can_prove() {
  [ -n "${SMOKE_VERIFY:-}" ] || [ -e "$ROOT/build/Release/code_jail.node" ] || [ -d "$ROOT/prebuilds" ] || docker info >/dev/null 2>&1
}

build() {
  local tag digest how=${SANDBOX_BUILD:-}
  [ -z "${SANDBOX_IMAGE:-}" ] || return 0
  begin 'the image' 'See the messages above. SANDBOX_BUILD=docker or SANDBOX_BUILD=cloud chooses who builds it.'
  tag=$(image_tag)
  digest=$(digest_of "$tag")
  if [ -z "$how" ] && ! can_prove; then how=cloud; fi
  if [ -z "$how" ] && [ -z "$digest" ]; then
    if docker info >/dev/null 2>&1; then how=docker; else how=cloud; fi
  fi
  if [ -n "$digest" ] && [ "$how" != cloud ]; then
    say "  is there: $IMAGES/sandbox:$tag"
  elif [ "$how" = docker ]; then
    build_with_docker "$tag"
    digest=$(digest_of "$tag")
    if [ "$MODE" = dry ]; then digest=sha256:of-that-build; fi
  elif [ "$how" = cloud ]; then
    build_with_cloud "$tag"
  else
    fail "SANDBOX_BUILD is '$how'; it is docker or cloud"
  fi
  [ -n "$digest" ] || fail "$IMAGES/sandbox has no image tagged $tag after its push; look with: gcloud artifacts docker images list $IMAGES/sandbox --include-tags"
  SANDBOX_IMAGE=$IMAGES/sandbox@$digest
}

# ---- revision ----

# Is the newest revision one of these settings, ready, and where the smoke test asks? A
# revision never changes, so its name can say what it was made with.
is_made() { # NAME
  local newest
  newest=$(describe "$SERVICE" status.latestCreatedRevisionName) || exit 1
  case $newest in "$1"-*) ;; *) return 1 ;; esac
  [ "$(describe "$SERVICE" status.latestReadyRevisionName)" = "$newest" ] &&
    [ "$(asked_revision)" = "$newest" ] &&
    [ "$(describe "$SERVICE" "metadata.annotations['run.googleapis.com/ingress']")" = "$SANDBOX_INGRESS" ]
}

# Which versions of the token it accepts. They are pinned, and stay what they are
# until rotate-token.sh changes them: under "latest", two instances of one
# revision could hold different tokens.
secrets_of_now() {
  local current='' previous=''
  if [ "$1" = 0 ]; then
    current=$(version_of "$SERVICE" CODE_SANDBOX_TOKEN) || return
    previous=$(version_of "$SERVICE" CODE_SANDBOX_TOKEN_PREVIOUS) || return
  fi
  [[ $current =~ ^[0-9]+$ ]] || current=$(if_there newest_version) || return
  printf 'CODE_SANDBOX_TOKEN=%s:%s' "$SECRET" "$current"
  if [ -n "$previous" ]; then printf ',CODE_SANDBOX_TOKEN_PREVIOUS=%s:%s' "$SECRET" "$previous"; fi
}

variables() {
  printf 'CODE_SANDBOX_CONCURRENCY=%s,CODE_SANDBOX_PARKED=%s,' "$CONCURRENCY" "${SANDBOX_PARKED:-$CONCURRENCY}"
  printf 'CODE_SANDBOX_MAX_MEMORY_MB=%s,' "${SANDBOX_MAX_MEMORY_MB:-512}"
  printf 'CODE_SANDBOX_TOTAL_MEMORY_MB=%s,' "${SANDBOX_TOTAL_MEMORY_MB:-1024}"
  # Cloud Run kills 10 s after its SIGTERM.
  printf 'CODE_SANDBOX_MAX_TIMEOUT_MS=%s,CODE_SANDBOX_QUEUE_TIMEOUT_MS=4000,CODE_SANDBOX_DRAIN_MS=8000' "$MAX_TIMEOUT_MS"
}

revision() {
  local first=1 secrets settings flags
  [ -n "${SANDBOX_IMAGE:-}" ] || build
  begin 'the new revision' "You need roles/run.admin, and roles/iam.serviceAccountUser on $ACCOUNT. If the container did not start: gcloud run services logs read $SERVICE --region=$REGION"
  case $SANDBOX_IMAGE in *@sha256:*) ;; *) fail "SANDBOX_IMAGE is '$SANDBOX_IMAGE'; name it by its digest: NAME@sha256:..." ;; esac
  if has_service "$SERVICE"; then first=0; fi
  secrets=$(secrets_of_now "$first")
  # shellcheck disable=SC2054 # the commas are gcloud's
  flags=(
    --image="$SANDBOX_IMAGE" --region="$REGION"
    # Without this one Cloud Run chooses the generation, and may choose the one without gVisor.
    --execution-environment=gen1
    --network="$NETWORK" --subnet="$SUBNET" --vpc-egress=all-traffic --clear-vpc-connector
    --service-account="$ACCOUNT" --set-secrets="$secrets" --set-env-vars="$(variables)"
    --concurrency="$CONCURRENCY" --cpu="${SANDBOX_CPU:-2}" --memory="${SANDBOX_MEMORY:-2Gi}"
    --timeout="$((MAX_TIMEOUT_MS / 1000 + 5))s"
    --min-instances="${SANDBOX_MIN_INSTANCES:-0}" --max-instances="${SANDBOX_MAX_INSTANCES:-10}"
    --cpu-boost --port=8080
    --startup-probe=tcpSocket.port=8080,periodSeconds=1,timeoutSeconds=1,failureThreshold=60
    --ingress="$SANDBOX_INGRESS"
  )
  if [ "${SANDBOX_CPU_ALWAYS:-0}" = 1 ]; then flags+=(--no-cpu-throttling); else flags+=(--cpu-throttling); fi
  if [ -n "${SANDBOX_BINARY_AUTHORIZATION:-}" ]; then flags+=(--binary-authorization="$SANDBOX_BINARY_AUTHORIZATION"); fi
  settings=$(printf '%s\n' "${flags[@]}" | openssl dgst -sha256 -r | cut -c1-12)
  if [ "$first" = 0 ] && is_made "$SERVICE-$settings"; then
    say '  is there: a revision of this image with these settings'
    return
  fi
  flags+=(--revision-suffix="$settings-$(date -u +%y%m%d%H%M%S)")
  if [ "$first" = 1 ]; then
    # Nobody is pointed to it yet, and until it has been proven only its owners may call it.
    change gcloud run deploy "$SERVICE" "${flags[@]}" --no-allow-unauthenticated
  else
    change gcloud run deploy "$SERVICE" "${flags[@]}" --no-traffic --tag=smoke
  fi
}

# ---- smoke, traffic ----

smoke() {
  begin 'the smoke test' 'The revision got no traffic, and nobody was given the right to call it. See what is WRONG above; once it is right, run this again.'
  if [ "$MODE" = dry ]; then
    say '  would run: infra/gcp/smoke.sh'
  else
    SANDBOX_REVISION=$(asked_revision)
    PROJECT_ID=$PROJECT "$HERE/smoke.sh" --candidate
  fi
}

# Before the smoke test, which would find it open.
close_access() {
  begin 'who may call it' 'You need roles/run.admin.'
  if [ "$SANDBOX_AUTH" = iam ] && has_service "$SERVICE" && is_public; then
    change gcloud run services remove-iam-policy-binding "$SERVICE" --region="$REGION" --member=allUsers --role=roles/run.invoker
  fi
}

traffic() {
  local proven=${SANDBOX_REVISION:-}
  begin 'the traffic' 'You need roles/run.admin.'
  if [ "$MODE" = dry ]; then
    say '  would give the traffic to what the smoke test has called shut, if it has not got it yet'
    return
  fi
  has_service "$SERVICE" || fail "there is no $SERVICE in $REGION; run this without a phase"
  [ -n "$proven" ] || fail 'SANDBOX_REVISION is not set; it is the one that infra/gcp/smoke.sh calls shut'
  # By its name: another deployment may have made a newer one meanwhile.
  [ "$(asked_revision)" = "$proven" ] ||
    fail "another deployment came between: $proven was proven, and $(asked_revision) would be asked now. Run this again"
  # It alone: what has another tag can be called as well, and has not been proven.
  if [ "$(traffic_of "$SERVICE" | sort)" != "$(printf '%s\n' "$proven,,proven" "$proven,100," | sort)" ]; then
    change gcloud run services update-traffic "$SERVICE" --region="$REGION" --to-revisions="$proven=100" --set-tags="proven=$proven"
  fi
  if [ "$SANDBOX_AUTH" = token ] && ! is_public; then
    change gcloud run services add-iam-policy-binding "$SERVICE" --region="$REGION" --member=allUsers --role=roles/run.invoker
  fi
  say "$SERVICE serves at $(describe "$SERVICE" status.url). Now the dashboard: ./scripts/deploy-gcp.sh"
}

start
need openssl 'It makes the token.'
case $PHASE in
  check)
    prepare
    [ ${#LACKING[@]} -eq 0 ] || fail "not there yet: $(printf '%s; ' "${LACKING[@]}")run once: infra/gcp/deploy-sandbox.sh prepare"
    ;;
  all)
    prepare
    build
    revision
    close_access
    smoke
    traffic
    ;;
  revision)
    revision
    close_access
    ;;
  *) "$PHASE" ;;
esac
STEP=''
