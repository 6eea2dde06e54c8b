'use strict';
// Judges what is deployed: node infra/gcp/settings.js FOLDER
//
// FOLDER holds what smoke.sh read with gcloud, one JSON file a question. Every
// setting on which the sandbox's walls rest is looked at, in every revision that
// can be reached; what was not read counts as wrong. Prints a line each and, for
// what is wrong, the remedy; exits 1 if anything is. Reads only, knows no network.

const fs = require('node:fs');
const path = require('node:path');

const names = {
  service: 'opendoor-sandbox',
  network: 'opendoor-sandbox-vpc',
  subnet: 'opendoor-sandbox-subnet',
  secret: 'opendoor-code-sandbox-token',
};
const REDEPLOY = 'infra/gcp/deploy-sandbox.sh sets it again';
const EVERYWHERE = new Set(['0.0.0.0/0', '::/0']);
const BY_HAND = /^(allUsers|allAuthenticatedUsers)$/;
const TOKENS = ['CODE_SANDBOX_TOKEN', 'CODE_SANDBOX_TOKEN_PREVIOUS'];
// All that deploy-sandbox.sh sets: another one may weaken the service, or be a secret.
const VARIABLES = new Set([
  ...TOKENS,
  'CODE_SANDBOX_CONCURRENCY',
  'CODE_SANDBOX_PARKED',
  'CODE_SANDBOX_MAX_MEMORY_MB',
  'CODE_SANDBOX_TOTAL_MEMORY_MB',
  'CODE_SANDBOX_MAX_TIMEOUT_MS',
  'CODE_SANDBOX_QUEUE_TIMEOUT_MS',
  'CODE_SANDBOX_DRAIN_MS',
]);

/** Is that the resource of this name, and of this project where it names one? */
const isOurs = (url, name, project) =>
  last(url) === name && (!/\bprojects\//.test(url) || url.includes(`projects/${project}/`));
const last = (url) =>
  String(url ?? '')
    .split('/')
    .pop();
const list = (value) => (Array.isArray(value) ? value : []);
const members = (policy, role) =>
  list(policy?.bindings)
    .filter((binding) => !role || binding.role === role)
    .flatMap((binding) => list(binding.members));

/** One revision: what is deployed with `gcloud run deploy`. */
function judgeRevision(revision, { check, account, project }) {
  const name = revision?.metadata?.name;
  const about = (what) => `${name}: ${what}`;
  const annotations = revision?.metadata?.annotations ?? {};
  const spec = revision?.spec ?? {};
  const container = list(spec.containers)[0] ?? {};
  const env = list(container.env);
  const google = (key) => annotations[`run.googleapis.com/${key}`];

  check(about('runs in gVisor (execution environment gen1)'), google('execution-environment') === 'gen1', REDEPLOY);
  check(
    about('all its traffic leaves through the closed network'),
    google('vpc-access-egress') === 'all-traffic',
    REDEPLOY,
  );
  let interfaces = [];
  try {
    interfaces = JSON.parse(google('network-interfaces') ?? '[]');
  } catch {}
  const [only] = interfaces;
  check(
    about(`is attached to ${names.network} and to nothing else`),
    interfaces.length === 1 &&
      isOurs(only.network, names.network, project) &&
      isOurs(only.subnetwork, names.subnet, project) &&
      google('vpc-access-connector') === undefined,
    REDEPLOY,
  );
  check(
    about('has no database socket'),
    !google('cloudsql-instances'),
    `gcloud run services update ${names.service} --clear-cloudsql-instances`,
  );
  check(
    about('has no volume'),
    list(spec.volumes).length === 0 && list(container.volumeMounts).length === 0,
    `gcloud run services update ${names.service} --clear-volumes --clear-volume-mounts`,
  );
  check(
    about('has one container, started as the image says'),
    list(spec.containers).length === 1 && !container.command?.length && !container.args?.length,
    REDEPLOY,
  );
  check(about('runs an image named by its digest'), /@sha256:[0-9a-f]{64}$/.test(container.image ?? ''), REDEPLOY);
  check(about('has the account without roles'), spec.serviceAccountName === account, REDEPLOY);
  check(about('is given up after 15 s'), spec.timeoutSeconds === 15, REDEPLOY);

  const tokens = env.filter((one) => one.valueFrom || TOKENS.includes(one.name));
  check(
    about('takes its token, and no other secret, from Secret Manager, by the number of its version'),
    tokens.some((one) => one.name === TOKENS[0]) &&
      tokens.every(
        ({ name, valueFrom }) =>
          TOKENS.includes(name) &&
          valueFrom?.secretKeyRef?.name === names.secret &&
          /^\d+$/.test(valueFrom.secretKeyRef.key),
      ) &&
      google('secrets') === undefined, // a name there may stand for another project's
    REDEPLOY,
  );
  check(
    about('has no variable but those that are needed'),
    env.every((one) => VARIABLES.has(one.name)) && !list(container.envFrom).length,
    REDEPLOY,
  );
  const slots = env.find((one) => one.name === 'CODE_SANDBOX_CONCURRENCY')?.value;
  check(
    about('has a slot for each request that is let in'),
    Number(slots) >= 1 && spec.containerConcurrency === Number(slots),
    REDEPLOY,
  );
}

function judgeService({ service, servicePolicy, revisions, candidate }, wanted) {
  const { check, auth, ingress } = wanted;
  const annotations = service?.metadata?.annotations ?? {};
  const open = members(servicePolicy).some((member) => BY_HAND.test(member));
  const unchecked = annotations['run.googleapis.com/invoker-iam-disabled'] === 'true';
  check(`its ingress is ${ingress}`, annotations['run.googleapis.com/ingress'] === ingress, REDEPLOY);
  if (auth === 'iam')
    check(
      'only who may invoke it can call it (IAM), and then the token counts',
      Array.isArray(servicePolicy?.bindings) || servicePolicy?.etag ? !open && !unchecked : false,
      unchecked
        ? `gcloud run services update ${names.service} --invoker-iam-check`
        : `gcloud run services remove-iam-policy-binding ${names.service} --member=allUsers (or allAuthenticatedUsers) --role=roles/run.invoker; or, if the token alone is to guard it: SANDBOX_AUTH=token`,
    );
  const all = [...new Set(list(service?.status?.traffic).map((target) => target.revisionName))];
  // With a candidate, the others will not be reached any more once it has the traffic.
  const reached = candidate === undefined ? all : all.filter((name) => name === candidate);
  check('something of it can be reached', reached.length > 0 && !reached.includes(undefined), REDEPLOY);
  for (const name of reached) {
    const revision = list(revisions).find((one) => one?.metadata?.name === name);
    check(`${name}: was read`, revision !== undefined, `gcloud run revisions describe ${name}`);
    if (revision) judgeRevision(revision, wanted);
  }
}

/** The network: shut means that a packet finds no rule, no route and nobody who answers. */
function judgeNetwork({ network, subnets, firewall, routes, routers, forwardings, policies }, { check }) {
  check(
    `${names.network} is there, and no other network is joined to it`,
    network?.name === names.network && list(network?.peerings).length === 0,
    `gcloud compute networks peerings list --network=${names.network}, then networks peerings delete`,
  );
  check(
    'it has no addresses of IPv6',
    network?.name !== undefined && network.enableUlaInternalIpv6 !== true,
    `gcloud compute networks update ${names.network} --no-enable-ula-internal-ipv6`,
  );
  check(
    `${names.subnet} is its one subnet`,
    list(subnets).length === 1 && subnets[0].name === names.subnet,
    `gcloud compute networks subnets list --network=${names.network}, and delete what is not ${names.subnet}`,
  );
  for (const subnet of list(subnets)) {
    check(
      `${subnet.name}: is IPv4 alone`,
      (subnet.stackType ?? 'IPV4_ONLY') === 'IPV4_ONLY' && !subnet.ipv6CidrRange,
      `gcloud compute networks subnets update ${subnet.name} --stack-type=IPV4_ONLY`,
    );
    check(
      `${subnet.name}: has no Private Google Access`,
      subnet.privateIpGoogleAccess === false &&
        /^(undefined|DISABLE_GOOGLE_ACCESS)$/.test(String(subnet.privateIpv6GoogleAccess)),
      `gcloud compute networks subnets update ${subnet.name} --no-enable-private-ip-google-access`,
    );
  }
  check(
    'its firewall rules come first',
    network?.name !== undefined && network.networkFirewallPolicyEnforcementOrder !== 'BEFORE_CLASSIC_FIREWALL',
    `gcloud compute networks update ${names.network} --network-firewall-policy-enforcement-order=AFTER_CLASSIC_FIREWALL`,
  );
  const rules = list(firewall).filter((rule) => !rule.disabled);
  const shut = rules.find(
    (rule) =>
      rule.direction === 'EGRESS' &&
      rule.priority === 0 &&
      list(rule.denied).some((one) => one.IPProtocol === 'all') &&
      list(rule.destinationRanges).some((range) => EVERYWHERE.has(range)) &&
      !rule.targetTags?.length &&
      !rule.targetServiceAccounts?.length,
  );
  check(
    'a firewall rule of the first priority denies all that leaves',
    shut !== undefined,
    'infra/gcp/deploy-sandbox.sh prepare makes opendoor-sandbox-deny-egress; delete one of that name that is disabled or narrower',
  );
  check(
    'no firewall rule allows anything, in or out',
    Array.isArray(firewall) && !rules.some((rule) => list(rule.allowed).length > 0),
    `gcloud compute firewall-rules delete ${rules
      .filter((rule) => rule.allowed)
      .map((rule) => rule.name)
      .join(' ')}`,
  );
  const ways = list(routes).filter((route) => last(route.nextHopNetwork) !== names.network);
  check(
    'no route leads out',
    Array.isArray(routes) && ways.length === 0,
    `gcloud compute routes delete ${ways.map((route) => route.name).join(' ')}`,
  );
  check(
    'no router (so no Cloud NAT, no VPN)',
    Array.isArray(routers) && routers.length === 0,
    `gcloud compute routers delete ${list(routers)
      .map((router) => router.name)
      .join(' ')}`,
  );
  check(
    'no forwarding rule (so no Private Service Connect)',
    Array.isArray(forwardings) && forwardings.length === 0,
    `gcloud compute forwarding-rules delete ${list(forwardings)
      .map((one) => one.name)
      .join(' ')}`,
  );
  const dns = list(policies).filter((policy) =>
    list(policy.networks).some((one) => last(one.networkUrl) === names.network),
  );
  const servers = dns.flatMap((policy) => list(policy.alternativeNameServerConfig?.targetNameServers));
  check(
    'names are asked of an address that nobody has',
    dns.length === 1 &&
      servers.length === 1 &&
      servers[0].ipv4Address === '10.250.0.62' &&
      dns[0].enableInboundForwarding !== true,
    'infra/gcp/deploy-sandbox.sh prepare makes the policy opendoor-sandbox-dns; delete another one first',
  );
}

function judgeIdentity({ projectPolicy, secretPolicy }, { check, account }) {
  const member = `serviceAccount:${account}`;
  const roles = list(projectPolicy?.bindings).filter((binding) =>
    list(binding.members).some((one) => one === member || BY_HAND.test(one)),
  );
  check(
    'its account has no role in the project',
    list(projectPolicy?.bindings).length > 0 && roles.length === 0,
    `gcloud projects remove-iam-policy-binding PROJECT --member=${member} (or everybody) --role=ROLE, for ${roles.map((one) => one.role).join(' ')}`,
  );
  const readers = members(secretPolicy);
  check(
    'its account can read the token, which nobody can who is just anybody',
    members(secretPolicy, 'roles/secretmanager.secretAccessor').includes(member) &&
      !readers.some((one) => BY_HAND.test(one)),
    'infra/gcp/deploy-sandbox.sh prepare',
  );
}

/**
 * @param {Record<string, any>} state what gcloud said, by file name
 * @param {{ project: string, auth: string, ingress: string }} wanted
 * @returns {{ what: string, holds: boolean, remedy: string }[]}
 */
function judge(state, { project, auth, ingress }) {
  /** @type {{ what: string, holds: boolean, remedy: string }[]} */
  const found = [];
  const check = (what, holds, remedy) => found.push({ what, holds: holds === true, remedy });
  const wanted = { check, auth, ingress, project, account: `${names.service}@${project}.iam.gserviceaccount.com` };
  judgeNetwork(state, wanted);
  judgeIdentity(state, wanted);
  if (state.ground !== true) judgeService(state, wanted);
  return found;
}

/** A file that is not there, or is no JSON, is a question without an answer. */
function read(folder) {
  const state = { revisions: [] };
  for (const file of fs.readdirSync(folder).filter((name) => name.endsWith('.json')))
    try {
      const value = JSON.parse(fs.readFileSync(path.join(folder, file), 'utf8'));
      if (file.startsWith('revision-')) state.revisions.push(value);
      else state[path.basename(file, '.json')] = value;
    } catch {}
  return state;
}

module.exports = { judge, read };

if (require.main === module) {
  const state = read(process.argv[2]);
  const found = judge(state, state.wanted ?? {});
  for (const { what, holds, remedy } of found) console.log(holds ? `ok    ${what}` : `WRONG ${what}\n      ${remedy}`);
  const wrong = found.filter(({ holds }) => !holds).length;
  console.log(`${found.length - wrong} of ${found.length} settings hold`);
  process.exitCode = wrong === 0 && found.length > 0 ? 0 : 1;
}
