# shellcheck shell=bash
# Shared by the scripts beside it: settings, how they speak, how they ask and
# change. Sourced with SELF (the script's name) and MODE set; made for bash 3.2 and later.
#
# Nothing here or in the scripts puts a secret into an argument or a message:
# tokens go through standard input and shell variables alone.

# ---- names: the dashboard and the documents know these; they are not settings ----

SERVICE=opendoor-sandbox
DASHBOARD=opendoor-dashboard
NETWORK=opendoor-sandbox-vpc
SUBNET=opendoor-sandbox-subnet
SECRET=opendoor-code-sandbox-token
REPOSITORY=opendoor
BUILDER=opendoor-sandbox-build

# ---- settings, all from the environment ----

REGION=${REGION:-us-central1}
PROJECT=${PROJECT_ID:-${GOOGLE_CLOUD_PROJECT:-}}
SANDBOX_AUTH=${SANDBOX_AUTH:-iam}
SANDBOX_INGRESS=${SANDBOX_INGRESS:-all}

# Read by the sourcing scripts and by settings.js.
export SERVICE DASHBOARD NETWORK SUBNET SECRET REPOSITORY BUILDER REGION SANDBOX_AUTH SANDBOX_INGRESS

# A question on the terminal would hang a pipeline; what a script needs to know is a setting.
export CLOUDSDK_CORE_DISABLE_PROMPTS=1

# MODE, of the sourcing script: act: change what has to change; dry: say it; check: only look
LACKING=()          # what a check did not find
STEP='' REMEDY=''

say() { printf '%s\n' "$*" >&2; }

fail() {
  say "$SELF: $1"
  STEP='' # says more than the step's own remedy
  exit 1
}

# begin STEP REMEDY: what is under way, and what helps if it fails.
begin() {
  STEP=$1 REMEDY=$2
  say "== $STEP"
}

finish() {
  local status=$?
  rm -rf "$SCRATCH"
  if [ "$status" -ne 0 ] && [ -n "$STEP" ]; then
    say "$SELF: step '$STEP' failed. $REMEDY"
    say "What is done stays done: the same command goes on from here."
  fi
}

SCRATCH=$(mktemp -d)
chmod 700 "$SCRATCH"
trap finish EXIT

# change COMMAND...: the only way in which these scripts change a project.
change() {
  case $MODE in
    act)
      say "  + $*"
      "$@" >&2
      ;;
    dry) say "  would run: $*" ;;
    check) ;;
  esac
}

# ask COMMAND...: standard output of a command that only reads. Where nothing is
# changed, and an API is still off, no answer is the answer.
ask() {
  if "$@" 2>"$SCRATCH/errors"; then return 0; fi
  if [ "$MODE" != act ] && grep -qiE 'SERVICE_DISABLED|has not been used|is not enabled|disabled' "$SCRATCH/errors"; then
    return 0
  fi
  cat "$SCRATCH/errors" >&2
  return 1
}

# if_there COMMAND...: asks about something that a dry run or a check may just have found missing.
if_there() {
  if [ "$MODE" = act ]; then ask "$@"; else "$@" 2>/dev/null || true; fi
}

# missing WHAT NAME COMMAND...: is NAME none of the lines that COMMAND lists? A
# command that fails ends the script: "I could not look" is not "it is not there".
missing() {
  local what=$1 name=$2 lines line
  shift 2
  lines=$(ask "$@") || exit 1
  while IFS= read -r line; do
    if [ "$line" = "$name" ] || [ "${line##*/}" = "$name" ]; then
      say "  is there: $what"
      return 1
    fi
  done <<EOF
$lines
EOF
  say "  missing: $what"
  LACKING+=("$what")
}

# grant ROLE MEMBER RESOURCE GROUP...: one binding, if it is not there.
grant() {
  local role=$1 member=$2 resource=$3
  shift 3
  if missing "$role for ${member#*:} on $resource" "$role,$member" if_there gcloud "$@" get-iam-policy "$resource" \
    --flatten='bindings[].members' --format='csv[no-heading](bindings.role,bindings.members)'; then
    change gcloud "$@" add-iam-policy-binding "$resource" --role="$role" --member="$member" --condition=None
  fi
}

need() {
  command -v "$1" >/dev/null || fail "$1 is not installed. $2"
}

# Who and where; checks the settings that every script has.
start() {
  need gcloud 'See https://cloud.google.com/sdk/docs/install'
  case $SANDBOX_AUTH in iam | token) ;; *) fail "SANDBOX_AUTH is '$SANDBOX_AUTH'; it is iam or token" ;; esac
  case $SANDBOX_INGRESS in
    all | internal | internal-and-cloud-load-balancing) ;;
    *) fail "SANDBOX_INGRESS is '$SANDBOX_INGRESS'; it is all, internal or internal-and-cloud-load-balancing" ;;
  esac
  [ -n "$PROJECT" ] || PROJECT=$(gcloud config get-value project 2>/dev/null) || PROJECT=''
  if [ -z "$PROJECT" ] || [ "$PROJECT" = '(unset)' ]; then
    fail 'no project. Set PROJECT_ID, or: gcloud config set project PROJECT'
  fi
  export PROJECT CLOUDSDK_CORE_PROJECT=$PROJECT CLOUDSDK_RUN_REGION=$REGION
  ACCOUNT=$SERVICE@$PROJECT.iam.gserviceaccount.com
  BUILD_ACCOUNT=$BUILDER@$PROJECT.iam.gserviceaccount.com
  IMAGES=$REGION-docker.pkg.dev/$PROJECT/$REPOSITORY
  export ACCOUNT BUILD_ACCOUNT IMAGES
  # They become parts of names, filters and addresses.
  [[ $PROJECT =~ ^[a-z][a-z0-9-]{4,28}[a-z0-9]$ ]] ||
    fail "the project is '$PROJECT'; its id is needed (gcloud projects list), not its number or its name"
  [[ $REGION =~ ^[a-z]+-[a-z]+[0-9]+$ ]] || fail "REGION is '$REGION'; it is one such as us-central1 or europe-west1"
  say "project $PROJECT, region $REGION"
}

# ---- the deployed service, as far as there is one ----

has_service() {
  local names
  names=$(ask gcloud run services list --region="$REGION" --format='value(metadata.name)') || exit 1
  case $'\n'$names$'\n' in *$'\n'"$1"$'\n'*) ;; *) return 1 ;; esac
}

describe() { # SERVICE FIELD
  gcloud run services describe "$1" --region="$REGION" --format="value($2)"
}

# REVISION,PERCENT,TAG of everything that can be reached; a line has one of the two
traffic_of() {
  gcloud run services describe "$1" --region="$REGION" --flatten='status.traffic[]' \
    --format='csv[no-heading](status.traffic.revisionName,status.traffic.percent,status.traffic.tag)'
}

# The revision that has a tag; empty without.
tagged() { # TAG
  traffic_of "$SERVICE" | sed -n "s/,.*,$1\$//p"
}

# The revisions that get traffic, a line each.
serving() {
  traffic_of "$SERVICE" | sed -n 's/,[1-9][0-9]*,.*$//p' | sort -u
}

# The one that the smoke test asks: the one with the tag "smoke", or else the one that serves.
asked_revision() {
  local asked
  asked=$(tagged smoke) || return
  if [ -n "$asked" ]; then printf '%s\n' "$asked"; else serving; fi
}

# Whatever serves has been proven: deploy-sandbox.sh puts the tag "proven" on it.
is_proven() {
  local now
  now=$(serving) || exit 1
  [ -n "$now" ] && [ "$now" = "$(tagged proven)" ]
}

# The number of the secret's version that a service has under a name; empty without.
version_of() { # SERVICE VARIABLE
  gcloud run services describe "$1" --region="$REGION" --flatten='spec.template.spec.containers[0].env[]' \
    --format='csv[no-heading](spec.template.spec.containers.env.name,spec.template.spec.containers.env.valueFrom.secretKeyRef.key)' |
    sed -n "s/^$2,//p"
}

is_public() {
  local bindings
  bindings=$(gcloud run services get-iam-policy "$SERVICE" --region="$REGION" --flatten='bindings[].members' \
    --format='csv[no-heading](bindings.role,bindings.members)') || exit 1
  case $'\n'$bindings$'\n' in *$'\nroles/run.invoker,allUsers\n'*) ;; *) return 1 ;; esac
}

# ---- the token ----

# Whole before gcloud starts: a pipe would send it the nothing of an openssl that fails.
add_version() {
  openssl rand -hex 32 | tr -d '\n' >"$SCRATCH/token"
  [ "$(wc -c <"$SCRATCH/token")" -eq 64 ] || fail 'openssl made no token'
  change gcloud secrets versions add "$SECRET" --data-file=- <"$SCRATCH/token"
  rm "$SCRATCH/token"
}

newest_version() {
  gcloud secrets versions list "$SECRET" --filter='state=ENABLED' --sort-by='~createTime' --limit=1 \
    --format='value(name.basename())'
}
