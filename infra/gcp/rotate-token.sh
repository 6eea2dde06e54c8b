#!/usr/bin/env bash
# Gives the sandbox and the dashboard a new token without a refused call in between:
# ./infra/gcp/rotate-token.sh --help
set -euo pipefail
HERE=$(CDPATH='' cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
SELF=rotate-token.sh MODE=act

usage() {
  cat <<'END'
usage: infra/gcp/rotate-token.sh [--finish] [--dry-run]

Without --finish:
  1. a new version of the secret opendoor-code-sandbox-token;
  2. a revision of the sandbox that accepts the new token and the one before it,
     proven by smoke.sh before it gets the traffic;
  3. the dashboard, if there is one, with the new token.
From then on both are accepted. Give the new one to whoever else uses it (laptops), and
after a while, when no call with the old one can be under way any more:
  --finish   a revision that accepts the new one alone; the old version is disabled

Can be stopped and run again at any point; it goes on there.
  --dry-run  reads, and says what it would change
  --help

Settings, from the environment: PROJECT_ID, REGION (us-central1), SANDBOX_AUTH (iam),
SANDBOX_INGRESS (all), as for deploy-sandbox.sh.
END
}

FINISH=0
for argument in "$@"; do
  case $argument in
    --help | -h) usage && exit 0 ;;
    --finish) FINISH=1 ;;
    --dry-run) MODE=dry ;;
    *) usage >&2 && exit 2 ;;
  esac
done

# shellcheck source=infra/gcp/common.sh
. "$HERE/common.sh"

prove() {
  local revision
  begin 'the smoke test' 'The new revision got no traffic; the old one serves as before. See what is WRONG above, and run this again.'
  if [ "$MODE" = dry ]; then
    say '  would run: infra/gcp/smoke.sh, and infra/gcp/deploy-sandbox.sh traffic'
    return
  fi
  revision=$(asked_revision)
  PROJECT_ID=$PROJECT "$HERE/smoke.sh" --candidate
  PROJECT_ID=$PROJECT SANDBOX_REVISION=$revision "$HERE/deploy-sandbox.sh" traffic
}

rotate() {
  local current previous new
  begin 'the new version' 'You need roles/secretmanager.admin on the secret.'
  current=$(version_of "$SERVICE" CODE_SANDBOX_TOKEN)
  previous=$(version_of "$SERVICE" CODE_SANDBOX_TOKEN_PREVIOUS)
  new=$(newest_version)
  if [ -n "$previous" ]; then
    say "  a rotation is under way, from version $previous to $current"
    new=$current
  elif [ "$new" = "$current" ]; then
    add_version
    new=$(newest_version)
  fi
  if [ "$MODE" = dry ] && [ "$new" = "$current" ] && [ -z "$previous" ]; then new=NEW; fi

  if [ "$new" != "$current" ]; then
    begin 'the revision that accepts both' 'You need roles/run.admin.'
    change gcloud run services update "$SERVICE" --region="$REGION" --no-traffic --tag=smoke \
      --update-secrets="CODE_SANDBOX_TOKEN=$SECRET:$new,CODE_SANDBOX_TOKEN_PREVIOUS=$SECRET:$current"
  fi
  prove

  begin 'the dashboard' 'You need roles/run.admin. The sandbox accepts both tokens meanwhile.'
  if ! has_service "$DASHBOARD"; then
    say "  there is no $DASHBOARD in $REGION; give the new token to whoever calls the sandbox"
  elif [ "$(version_of "$DASHBOARD" CODE_SANDBOX_TOKEN)" != "$new" ]; then
    change gcloud run services update "$DASHBOARD" --region="$REGION" --update-secrets="CODE_SANDBOX_TOKEN=$SECRET:$new"
  fi
  [ "$MODE" = dry ] || say 'Both tokens are accepted. Once nobody uses the old one: infra/gcp/rotate-token.sh --finish'
}

finish_rotation() {
  local current previous used
  begin 'the state of the rotation' 'See the message above.'
  current=$(version_of "$SERVICE" CODE_SANDBOX_TOKEN)
  previous=$(version_of "$SERVICE" CODE_SANDBOX_TOKEN_PREVIOUS)
  if has_service "$DASHBOARD"; then
    used=$(version_of "$DASHBOARD" CODE_SANDBOX_TOKEN)
    [ "$used" = "$current" ] || [ -z "$used" ] ||
      fail "$DASHBOARD still has version $used of the token, not $current; run infra/gcp/rotate-token.sh without --finish"
  fi
  if [ -n "$previous" ]; then
    begin 'the revision that accepts the new token alone' 'You need roles/run.admin.'
    change gcloud run services update "$SERVICE" --region="$REGION" --no-traffic --tag=smoke \
      --remove-secrets=CODE_SANDBOX_TOKEN_PREVIOUS
  fi
  prove
  disable_others "$current"
}

disable_others() { # but the version in use
  local version enabled
  begin 'the old versions' 'You need roles/secretmanager.admin on the secret.'
  enabled=$(gcloud secrets versions list "$SECRET" --filter='state=ENABLED' --format='value(name.basename())')
  for version in $enabled; do
    if [ "$version" -lt "$1" ]; then change gcloud secrets versions disable "$version" --secret="$SECRET"; fi
  done
}

start
need openssl 'It makes the token.'
has_service "$SERVICE" || fail "there is no $SERVICE in $REGION; infra/gcp/deploy-sandbox.sh makes it, and its token"
[[ $(version_of "$SERVICE" CODE_SANDBOX_TOKEN) =~ ^[0-9]+$ ]] ||
  fail "$SERVICE does not name a version of its token; run infra/gcp/deploy-sandbox.sh first"
if [ "$FINISH" = 1 ]; then finish_rotation; else rotate; fi
STEP=''
