#!/usr/bin/env bash
# Proves that the deployed sandbox is shut: ./infra/gcp/smoke.sh --help
set -euo pipefail
HERE=$(CDPATH='' cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ROOT=$(CDPATH='' cd "$HERE/../.." && pwd)
SELF=smoke.sh MODE=act

usage() {
  cat <<'END'
usage: infra/gcp/smoke.sh [--settings | --ground | --candidate] [--collect FOLDER | --judge FOLDER] [--dry-run]

Proves that the deployed sandbox service is shut, and changes nothing:
  1. its settings, of the service, each revision that can be reached, the network,
     the firewall, DNS and the accounts, are those that deploy-sandbox.sh makes;
  2. from inside the jail nothing can be reached (npx code-jail verify): no address,
     no Google API, no metadata server, no name, no secret; a wrong token is refused,
     an endless loop is cut off, and the isolation that is reported is gVisor.
Exits 0 only if everything holds. It asks the revision with the tag "smoke", or, where
none has it, the one that serves; and says which.

  --settings         the first part alone
  --collect FOLDER   only read, with gcloud: what the other machine judges. The folder is
                     made, for nobody else; it holds the token then, and is yours to remove
  --judge FOLDER     only judge and ask, without gcloud
  --ground           the settings of the network and the accounts alone, before there is a service
  --candidate        of the revisions the one alone that it asks: the others are about to lose
                     traffic and tags (deploy-sandbox.sh)
  --dry-run          say what would be read and asked, and do neither
  --help

Settings, from the environment: PROJECT_ID, REGION (us-central1), SANDBOX_AUTH (iam),
SANDBOX_INGRESS (all), as for deploy-sandbox.sh; and
  SMOKE_ACCOUNT          the service account to call it as (default: who is logged in)
  SMOKE_VERIFY           the command for the second part (default: this repository's code-jail,
                         built by npm run setup; else the deployed image, under Docker)
END
}

PART=both SETTINGS=0 GROUND=0 CANDIDATE=0 FOLDER=
while [ $# -gt 0 ]; do
  case $1 in
    --help | -h) usage && exit 0 ;;
    --settings) SETTINGS=1 ;;
    --ground) GROUND=1 SETTINGS=1 ;;
    --candidate) CANDIDATE=1 ;;
    --dry-run) MODE=dry ;;
    --collect | --judge)
      PART=${1#--} FOLDER=${2:-}
      [ -n "$FOLDER" ] || { usage >&2 && exit 2; }
      shift
      ;;
    *) usage >&2 && exit 2 ;;
  esac
  shift
done

# shellcheck source=infra/gcp/common.sh
. "$HERE/common.sh"

# ---- read ----

# A question that gcloud does not answer is one that settings.js calls wrong.
read_json() { # NAME COMMAND...
  local name=$1
  shift
  if ! "$@" --format=json >"$FOLDER/$name.json" 2>"$SCRATCH/errors"; then
    rm -f "$FOLDER/$name.json"
    say "  not read: $* ($(head -c 300 "$SCRATCH/errors" | tr '\n' ' '))"
  fi
}

collect_ground() {
  begin 'to read the settings' 'You need roles/viewer, roles/iam.securityReviewer and, for the token, roles/secretmanager.secretAccessor.'
  read_json network gcloud compute networks describe "$NETWORK"
  read_json subnets gcloud compute networks subnets list --filter="network~/$NETWORK\$"
  read_json firewall gcloud compute firewall-rules list --filter="network~/$NETWORK\$"
  read_json routes gcloud compute routes list --filter="network~/$NETWORK\$"
  read_json routers gcloud compute routers list --filter="network~/$NETWORK\$"
  read_json forwardings gcloud compute forwarding-rules list --filter="network~/$NETWORK\$"
  read_json policies gcloud dns policies list
  read_json projectPolicy gcloud projects get-iam-policy "$PROJECT"
  read_json secretPolicy gcloud secrets get-iam-policy "$SECRET"
  printf '{"project":"%s","auth":"%s","ingress":"%s"}\n' "$PROJECT" "$SANDBOX_AUTH" "$SANDBOX_INGRESS" >"$FOLDER/wanted.json"
  if [ "$GROUND" = 1 ]; then printf 'true\n' >"$FOLDER/ground.json"; fi
}

collect_service() {
  local revision
  has_service "$SERVICE" || fail "there is no $SERVICE in $REGION; infra/gcp/deploy-sandbox.sh makes it"
  read_json service gcloud run services describe "$SERVICE" --region="$REGION"
  read_json servicePolicy gcloud run services get-iam-policy "$SERVICE" --region="$REGION"
  asked_revision >"$FOLDER/revision"
  [ "$(wc -w <"$FOLDER/revision")" -eq 1 ] ||
    fail "no revision of $SERVICE has the tag smoke, and not one alone has the traffic; infra/gcp/deploy-sandbox.sh makes a new one"
  if [ "$CANDIDATE" = 1 ]; then printf '"%s"\n' "$(cat "$FOLDER/revision")" >"$FOLDER/candidate.json"; fi
  # A revision that has only a tag can be called as well.
  while IFS=, read -r revision _; do
    [ -z "$revision" ] || read_json "revision-$revision" gcloud run revisions describe "$revision" --region="$REGION"
  done <<EOF
$(traffic_of "$SERVICE")
EOF
}

collect_access() {
  local url smoke version identity=()
  url=$(describe "$SERVICE" status.url)
  smoke=$(gcloud run services describe "$SERVICE" --region="$REGION" --flatten='status.traffic[]' \
    --format='csv[no-heading](status.traffic.tag,status.traffic.url)' | sed -n 's/^smoke,//p')
  printf '%s\n' "${smoke:-$url}" >"$FOLDER/url"
  version=$(version_of "$SERVICE" CODE_SANDBOX_TOKEN)
  describe "$SERVICE" 'spec.template.spec.containers[0].image' >"$FOLDER/image"
  gcloud secrets versions access "${version:-latest}" --secret="$SECRET" >"$FOLDER/token"
  # For a tagged revision, too, the audience is the service's own URL.
  if [ -n "${SMOKE_ACCOUNT:-}" ]; then
    identity=(--impersonate-service-account="$SMOKE_ACCOUNT" --audiences="$url" --include-email)
  fi
  if is_public; then
    : >"$FOLDER/identity" # nobody asks for one, and code-jail verify would call that wrong
  else
    gcloud auth print-identity-token ${identity[@]+"${identity[@]}"} >"$FOLDER/identity"
  fi
}

collect() {
  umask 077
  # A new one: what an earlier run left there would be judged too.
  mkdir "$FOLDER" || fail "$FOLDER is there already, or cannot be made"
  collect_ground
  if [ "$GROUND" = 0 ]; then collect_service; fi
  if [ "$SETTINGS" = 0 ]; then collect_access; fi
}

# ---- judge ----

judge_settings() {
  need node 'Node.js 20 or later; on a machine with Node.js alone: --judge'
  begin 'the settings' 'Each line that says WRONG has its remedy below it. Do not send code to this service before it is right.'
  node "$HERE/settings.js" "$FOLDER"
}

verify() {
  begin 'from inside the jail' "See the lines that failed. Is the ingress internal? Then run this from inside its network."
  local url image
  url=$(cat "$FOLDER/url")
  image=$(cat "$FOLDER/image")
  # By the environment: arguments can be read by everybody, and so can a trace of these lines.
  { set +x; } 2>/dev/null
  CODE_SANDBOX_TOKEN=$(cat "$FOLDER/token")
  CODE_SANDBOX_IDENTITY_TOKEN=$(cat "$FOLDER/identity")
  unset CODE_SANDBOX_IDENTITY CODE_SANDBOX_AUDIENCE
  export CODE_SANDBOX_TOKEN CODE_SANDBOX_IDENTITY_TOKEN
  if [ -n "${SMOKE_VERIFY:-}" ]; then
    # shellcheck disable=SC2086 # a command with its arguments
    $SMOKE_VERIFY verify --url "$url" --expect gvisor
  elif [ -e "$ROOT/build/Release/code_jail.node" ] || [ -d "$ROOT/prebuilds" ]; then
    node "$ROOT/bin/code-jail.js" verify --url "$url" --expect gvisor
  elif command -v docker >/dev/null; then
    docker run --rm -e CODE_SANDBOX_TOKEN -e CODE_SANDBOX_IDENTITY_TOKEN --entrypoint /usr/local/bin/node "$image" \
      /app/bin/code-jail.js verify --url "$url" --expect gvisor
  else
    fail 'code-jail is not built here. On Linux: npm run setup. Elsewhere: install Docker, or use SANDBOX_BUILD=cloud'
  fi
}

if [ "$PART" != judge ]; then start; fi
if [ "$MODE" = dry ]; then
  say "would read the settings of $SERVICE, $NETWORK and their accounts, and then run: code-jail verify --url URL --expect gvisor"
  exit 0
fi
FOLDER=${FOLDER:-$SCRATCH/smoke}
if [ "$PART" != judge ]; then collect; fi
if [ "$PART" != collect ]; then judge_settings; fi
if [ "$PART" != collect ] && [ "$SETTINGS" = 0 ]; then
  verify
  say "shut: $(cat "$FOLDER/revision") at $(cat "$FOLDER/url")"
fi
STEP=''
