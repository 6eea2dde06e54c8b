#!/usr/bin/env bash
# Deploys the dashboard and connects it to the sandbox: ./scripts/deploy-gcp.sh --help
set -euo pipefail
ROOT=$(CDPATH='' cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
SELF=deploy-gcp.sh MODE=act

usage() {
  cat <<'END'
usage: scripts/deploy-gcp.sh [--with-sandbox] [--connect] [--dry-run]

Deploys the dashboard (opendoor-dashboard) to Cloud Run, built from apps/dashboard. If
the sandbox (opendoor-sandbox) is there, what serves has passed the smoke test
(deploy-sandbox.sh gives it the tag "proven") and its settings are still those of a shut one, the
dashboard gets its URL (CODE_SANDBOX_URL), is bound to its token (CODE_SANDBOX_TOKEN), and
its account may call it and read that token, and it runs nothing behind less than gVisor
(MIN_ISOLATION). A sandbox that is open is not connected.

The dashboard has no login of its own, so its service is never public: only whom IAM or
Identity-Aware Proxy lets through gets in. Run it again at any time.

  --with-sandbox  first infra/gcp/deploy-sandbox.sh
  --connect       a dashboard that is deployed already is connected, and nothing is built
  --dry-run       reads, and says what it would change
  --help

Settings, from the environment: PROJECT_ID, REGION (us-central1), SANDBOX_AUTH (iam),
SANDBOX_INGRESS (all), as for infra/gcp/deploy-sandbox.sh; and
  DASHBOARD_IMAGE    a ready image instead of a build
  DASHBOARD_HOSTS    names it answers to, by commas (default: those it has; else its URL's)
  DASHBOARD_ACCOUNT  its service account (default: the one it has; else opendoor-dashboard)
  SANDBOX_JUDGED     1: smoke.sh --settings has just been run (Cloud Build, which runs it
                     in a step of its own)
END
}

WITH_SANDBOX=0 CONNECT=0
for argument in "$@"; do
  case $argument in
    --help | -h) usage && exit 0 ;;
    --with-sandbox) WITH_SANDBOX=1 ;;
    --connect) CONNECT=1 ;;
    --dry-run) MODE=dry ;;
    *) usage >&2 && exit 2 ;;
  esac
done

# shellcheck source=infra/gcp/common.sh
. "$ROOT/infra/gcp/common.sh"

DRY_RUN=()
[ "$MODE" != dry ] || DRY_RUN=(--dry-run)

# ---- which image ----

choose_image() {
  local tag
  begin 'the dashboard' 'See the messages above.'
  IMAGE=''
  if [ "$CONNECT" = 1 ]; then
    [ "$EXISTS" = 1 ] || fail "there is no service $DASHBOARD in $REGION to connect; without --connect it is built"
    return 0
  fi
  IMAGE=${DASHBOARD_IMAGE:-}
  [ -z "$IMAGE" ] || return 0
  need docker 'Or: gcloud builds submit --config=infra/gcp/cloudbuild.dashboard.yaml'
  tag=$(date -u +t%Y%m%d%H%M%S)
  IMAGE=$IMAGES/dashboard:$tag
  change gcloud auth configure-docker "$REGION-docker.pkg.dev"
  change docker build --pull --platform=linux/amd64 -f "$ROOT/apps/dashboard/Dockerfile" -t "$IMAGE" "$ROOT"
  change docker push "$IMAGE"
}

choose_account() {
  begin "the dashboard's account" 'You need roles/iam.serviceAccountAdmin.'
  DASHBOARD_ACCOUNT=${DASHBOARD_ACCOUNT:-}
  if [ -z "$DASHBOARD_ACCOUNT" ] && [ "$EXISTS" = 1 ]; then
    DASHBOARD_ACCOUNT=$(describe "$DASHBOARD" spec.template.spec.serviceAccountName)
    [ -n "$DASHBOARD_ACCOUNT" ] || fail "$DASHBOARD does not say which account it has; name it: DASHBOARD_ACCOUNT=..."
  fi
  if [ -z "$DASHBOARD_ACCOUNT" ]; then
    DASHBOARD_ACCOUNT=$DASHBOARD@$PROJECT.iam.gserviceaccount.com
    if missing "account $DASHBOARD_ACCOUNT" "$DASHBOARD_ACCOUNT" gcloud iam service-accounts list --format='value(email)'; then
      change gcloud iam service-accounts create "$DASHBOARD" --display-name='The dashboard'
    fi
  fi
}

# ---- the sandbox, if it is there and shut ----

connect() {
  local version
  FLAGS=() VERSION=''
  begin 'the sandbox' "See the lines that say WRONG. $DASHBOARD was not changed, and is not connected to a sandbox that is not shut."
  if ! has_service "$SERVICE"; then
    say "  there is no $SERVICE in $REGION: CODE_SANDBOX_URL is not set. infra/gcp/deploy-sandbox.sh makes it"
    return
  fi
  if [ "${SANDBOX_JUDGED:-0}" != 1 ]; then
    PROJECT_ID=$PROJECT "$ROOT/infra/gcp/smoke.sh" --settings ${DRY_RUN[@]+"${DRY_RUN[@]}"}
  fi
  if ! is_proven; then
    [ "$MODE" = dry ] ||
      fail "what serves of $SERVICE has not passed the smoke test. Run infra/gcp/deploy-sandbox.sh; $DASHBOARD was not changed"
    say '  what serves has not passed the smoke test yet'
  fi
  begin 'what the dashboard may do' 'You need roles/run.admin, and roles/secretmanager.admin on the secret.'
  grant roles/secretmanager.secretAccessor "serviceAccount:$DASHBOARD_ACCOUNT" "$SECRET" secrets
  URL=$(describe "$SERVICE" status.url)
  version=$(version_of "$SERVICE" CODE_SANDBOX_TOKEN)
  VARIABLES=CODE_SANDBOX_URL=$URL,MIN_ISOLATION=gvisor
  if [ "$SANDBOX_AUTH" = iam ]; then
    grant roles/run.invoker "serviceAccount:$DASHBOARD_ACCOUNT" "$SERVICE" run services
    VARIABLES=$VARIABLES,CODE_SANDBOX_IDENTITY=metadata
  fi
  FLAGS=(--update-env-vars="$VARIABLES" --update-secrets="CODE_SANDBOX_TOKEN=$SECRET:$version")
  VERSION=$version
}

# value_of NAME: a variable of the dashboard, as it is now.
value_of() {
  gcloud run services describe "$DASHBOARD" --region="$REGION" --flatten='spec.template.spec.containers[0].env[]' \
    --format='csv[no-heading](spec.template.spec.containers.env.name,spec.template.spec.containers.env.value)' |
    sed -n "s/^$1,//p" | tr -d '"'
}

is_connected() {
  [ -n "$VERSION" ] || return 0 # to nothing, as there is nothing
  [ "$(version_of "$DASHBOARD" CODE_SANDBOX_TOKEN)" = "$VERSION" ] || return 1
  [ "$(value_of CODE_SANDBOX_URL)" = "$URL" ] || return 1
  [ "$(value_of MIN_ISOLATION)" = gvisor ] || return 1
  [ "$SANDBOX_AUTH" = token ] || [ "$(value_of CODE_SANDBOX_IDENTITY)" = metadata ]
}

deploy() {
  begin 'the new revision of the dashboard' "You need roles/run.admin, and roles/iam.serviceAccountUser on $DASHBOARD_ACCOUNT."
  if [ -n "$IMAGE" ]; then
    change gcloud run deploy "$DASHBOARD" --image="$IMAGE" --region="$REGION" --service-account="$DASHBOARD_ACCOUNT" \
      --no-allow-unauthenticated ${FLAGS[@]+"${FLAGS[@]}"}
  elif is_connected; then
    say '  is there: a dashboard that is connected'
  else
    change gcloud run services update "$DASHBOARD" --region="$REGION" ${FLAGS[@]+"${FLAGS[@]}"}
  fi
}

# Its URL is known only when it is there.
name_hosts() {
  local now='' wanted
  begin 'the names that the dashboard answers to' 'You need roles/run.admin.'
  if [ "$EXISTS" = 0 ] && [ "$MODE" = dry ]; then
    say "  would set DASHBOARD_HOSTS to ${DASHBOARD_HOSTS:-its URL}"
    return
  fi
  now=$(value_of DASHBOARD_HOSTS)
  wanted=${DASHBOARD_HOSTS:-$now}
  [ -n "$wanted" ] || wanted=$(describe "$DASHBOARD" status.url)
  wanted=${wanted#https://}
  if [ "$now" = "$wanted" ]; then
    say "  are there: $wanted"
  else
    change gcloud run services update "$DASHBOARD" --region="$REGION" --update-env-vars="^;^DASHBOARD_HOSTS=$wanted"
  fi
}

start
[[ ${DASHBOARD_HOSTS:-} =~ ^[A-Za-z0-9.:,-]*$ ]] || fail "DASHBOARD_HOSTS is '$DASHBOARD_HOSTS'; it is host names, by commas"
if [ "$WITH_SANDBOX" = 1 ]; then
  PROJECT_ID=$PROJECT "$ROOT/infra/gcp/deploy-sandbox.sh" ${DRY_RUN[@]+"${DRY_RUN[@]}"}
fi
EXISTS=0
if has_service "$DASHBOARD"; then EXISTS=1; fi
choose_image
choose_account
connect
deploy
name_hosts
STEP=''
