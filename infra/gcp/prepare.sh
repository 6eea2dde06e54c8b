# shellcheck shell=bash
# What the sandbox stands on, made where it is missing; sourced by
# deploy-sandbox.sh. What is there but wrong is not mended here: the smoke test
# finds it and names the command.

prepare_apis() {
  begin 'the APIs' 'Is billing on for this project? You need roles/serviceusage.serviceUsageAdmin.'
  local on api off=()
  on=$(gcloud services list --enabled --format='value(config.name)')
  for api in run compute artifactregistry cloudbuild secretmanager iam iamcredentials dns cloudresourcemanager; do
    case $'\n'$on$'\n' in *$'\n'$api.googleapis.com$'\n'*) ;; *) off+=("$api.googleapis.com") ;; esac
  done
  if [ ${#off[@]} -gt 0 ]; then
    say "  missing: ${off[*]}"
    LACKING+=("${off[*]}")
    change gcloud services enable "${off[@]}"
  fi
}

prepare_network() {
  begin 'the network that leads nowhere' 'You need roles/compute.networkAdmin, roles/compute.securityAdmin and roles/dns.admin.'
  if missing "network $NETWORK" "$NETWORK" gcloud compute networks list --format='value(name)'; then
    change gcloud compute networks create "$NETWORK" --subnet-mode=custom --bgp-routing-mode=regional
  fi
  # Cloud Run wants a /26 at least.
  if missing "subnet $SUBNET" "$SUBNET" gcloud compute networks subnets list --filter="region~/$REGION\$" --format='value(name)'; then
    change gcloud compute networks subnets create "$SUBNET" --network="$NETWORK" --region="$REGION" \
      --range=10.250.0.0/26 --stack-type=IPV4_ONLY --no-enable-private-ip-google-access
  fi
  prepare_routes
  # The second-last address of a subnet is never given to anybody (in one that was
  # expanded, to an instance, which the rule of ingress keeps silent). Without this
  # the resolver answers for the whole world, and names carry data out.
  if missing 'DNS policy opendoor-sandbox-dns' opendoor-sandbox-dns gcloud dns policies list --format='value(name)'; then
    change gcloud dns policies create opendoor-sandbox-dns --networks="$NETWORK" \
      --private-alternative-name-servers=10.250.0.62 --no-enable-inbound-forwarding --description=blackhole
  fi
}

prepare_routes() {
  local rule route routes
  # Priority 0: at equal priority a denial wins, so that no later rule can open it.
  rule=opendoor-sandbox-deny-egress
  if missing "firewall rule $rule" "$rule" gcloud compute firewall-rules list --format='value(name)'; then
    change gcloud compute firewall-rules create "$rule" --network="$NETWORK" --direction=EGRESS \
      --action=DENY --rules=all --destination-ranges=0.0.0.0/0 --priority=0
  fi
  rule=opendoor-sandbox-deny-ingress
  if missing "firewall rule $rule" "$rule" gcloud compute firewall-rules list --format='value(name)'; then
    change gcloud compute firewall-rules create "$rule" --network="$NETWORK" --direction=INGRESS \
      --action=DENY --rules=all --source-ranges=0.0.0.0/0 --priority=0
  fi
  # Every new network is given this one.
  routes=$(ask gcloud compute routes list --format='value(name)' \
    --filter="network~/$NETWORK\$ AND nextHopGateway:default-internet-gateway") || exit 1
  for route in $routes; do
    say "  too many: route $route"
    LACKING+=("route $route has to go")
    change gcloud compute routes delete "$route"
  done
}

prepare_token() {
  begin 'the account and the token' 'You need roles/iam.serviceAccountAdmin and roles/secretmanager.admin.'
  if missing "account $ACCOUNT" "$ACCOUNT" gcloud iam service-accounts list --format='value(email)'; then
    change gcloud iam service-accounts create "$SERVICE" --display-name='The sandbox: reads its token, has no role'
  fi
  if missing "secret $SECRET" "$SECRET" gcloud secrets list --format='value(name)'; then
    change gcloud secrets create "$SECRET" --replication-policy=automatic
  fi
  prepare_version
  # On this secret, never on the project.
  grant roles/secretmanager.secretAccessor "serviceAccount:$ACCOUNT" "$SECRET" secrets
}

prepare_version() {
  local version
  version=$(if_there newest_version)
  if [ -z "$version" ]; then
    say "  missing: a version of $SECRET"
    LACKING+=("a version of $SECRET")
    add_version
  fi
}

# Cloud Build works as an account of its own, which can deploy this service and
# the dashboard, and read what the smoke test judges.
prepare_builder() {
  begin 'the image repository and the account of Cloud Build' 'You need roles/artifactregistry.admin, roles/iam.serviceAccountAdmin and roles/resourcemanager.projectIamAdmin.'
  local role member=serviceAccount:$BUILD_ACCOUNT
  if missing "repository $REPOSITORY" "$REPOSITORY" gcloud artifacts repositories list --location="$REGION" --format='value(name)'; then
    change gcloud artifacts repositories create "$REPOSITORY" --repository-format=docker --location="$REGION"
  fi
  if missing "account $BUILD_ACCOUNT" "$BUILD_ACCOUNT" gcloud iam service-accounts list --format='value(email)'; then
    change gcloud iam service-accounts create "$BUILDER" --display-name='Cloud Build of the sandbox and the dashboard'
  fi
  for role in cloudbuild.builds.builder run.admin compute.networkViewer dns.reader iam.securityReviewer serviceusage.serviceUsageViewer; do
    grant "roles/$role" "$member" "$PROJECT" projects
  done
  grant roles/iam.serviceAccountUser "$member" "$ACCOUNT" iam service-accounts
  # The smoke test's identity token is one of its own.
  grant roles/iam.serviceAccountOpenIdTokenCreator "$member" "$BUILD_ACCOUNT" iam service-accounts
  grant roles/secretmanager.secretAccessor "$member" "$SECRET" secrets
  grant roles/secretmanager.viewer "$member" "$SECRET" secrets
}

prepare() {
  prepare_apis
  prepare_network
  prepare_token
  prepare_builder
}
