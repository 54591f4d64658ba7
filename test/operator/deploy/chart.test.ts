/**
 * Renders the chart with the real Helm: it makes the same objects as the kustomize base, and refuses wrong values at
 * their own path.
 */

import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { parse, parseAllDocuments } from 'yaml'
import { parseConsole } from '../../../console/config/console.ts'
import { values } from '../../../operator/deploy/values.ts'
import { kubernetes } from '../../cluster/support/binary.ts'
import { CHART, helm } from '../../cluster/support/helm.ts'
import type { LiveObject } from '../../support/operator/live-object.ts'
import { unwrap } from '../../support/unwrap.ts'

const DEPLOY = join(CHART, '../..')
const home = mkdtempSync(join(realpathSync(tmpdir()), 'portico-helm-'))
test.after(() => rmSync(home, { recursive: true, force: true }))

type Found = LiveObject

const byName = (yaml: string): Record<string, Found> =>
  Object.fromEntries(
    parseAllDocuments(yaml)
      .map((document) => document.toJS() as Found)
      .map((one) => [`${one.kind} ${one.metadata.namespace ?? ''}/${one.metadata.name}`, one])
      .sort(([one], [other]) => ((one as string) < (other as string) ? -1 : 1)),
  )

function buildKustomize(folder: string): Record<string, Found> {
  const [program, ...leading] = kubernetes()('kubectl')
  return byName(execFileSync(program, [...leading, 'kustomize', folder], { encoding: 'utf8', maxBuffer: 1 << 26 }))
}

const template = (values: object, namespace = 'portico-system') =>
  helm(home, ['template', 'portico', CHART, '--namespace', namespace, '--values', '-'], JSON.stringify(values))

function renderChart(values: object, namespace?: string): Record<string, Found> {
  const { status, stdout, stderr } = template(values, namespace)
  assert.is(status, 0, stderr)
  return byName(stdout)
}

/** Leaves the CRDs out of tests that are not about them: they are megabytes, and reading them takes longest. */
const crds = { install: false }

const findOperator = (found: Record<string, Found>, namespace = 'portico-system') =>
  unwrap(found[`Deployment ${namespace}/portico-operator`]).spec
const readArgs = (found: Record<string, Found>, namespace?: string) =>
  findOperator(found, namespace).template.spec.containers[0].args.slice(2)

test('for all namespaces the chart equals the kustomize build, except the namespace', () => {
  const { 'Namespace /portico-system': namespace, ...built } = buildKustomize(DEPLOY)
  assert.ok(namespace)
  assert.ok(Object.keys(built).length > 12)
  assert.equal(renderChart({ crds: { keep: false } }), built)
})

test('for one namespace the chart equals the kustomize build, too', () => {
  const values = { namespaces: ['portico-system'], crds: { install: false } }
  assert.equal(renderChart(values), buildKustomize(join(DEPLOY, 'namespaced')))
})

/** Renders the overlay of docs/install.md with the component for the admission webhook, over the given base. */
const withAdmission = (base: string): Record<string, Found> =>
  renderOverlay('components: [../operator/deploy/admission]\n', base)

/** Renders the overlay of docs/install.md that contains this text, over the given base instead of its own. */
function renderOverlay(characters: string, base: string): Record<string, Found> {
  const text = readFileSync(join(DEPLOY, '../../docs/install.md'), 'utf8')
  const overlay = [...text.matchAll(/^```yaml\n(.*?)^```/gms)].map(([, yaml = '']) => yaml)
  const [found = ''] = overlay.filter((yaml) => yaml.includes(characters))
  assert.match(found, '../operator/deploy')
  const folder = mkdtempSync(join(home, 'overlay-'))
  writeFileSync(
    join(folder, 'kustomization.yaml'),
    // Files that both bases share are next to them.
    found.replace(/\.\.\/operator\/deploy(\/console|\/viewers)?/g, (_, common?: string) =>
      relative(folder, join(DEPLOY, common ?? base)),
    ),
  )
  return buildKustomize(folder)
}

test('with the admission webhook too, for all namespaces and for one', () => {
  const { 'Namespace /portico-system': _, ...built } = withAdmission('.')
  const admission = { enabled: true }
  assert.equal(renderChart({ crds: { keep: false }, admission }), built)
  const own = renderChart({ namespaces: ['portico-system'], crds: { install: false }, admission })
  assert.equal(own, withAdmission('namespaced'))
  assert.equal(readArgs(own).slice(-2), ['--admission', 'portico-operator.portico-system'])
})

test('in another namespace kustomize equals Helm, except for cluster-wide names', () => {
  const values = { namespaces: ['tools'], crds: { install: false }, admission: { enabled: true } }
  const text = JSON.stringify(renderChart(values, 'tools')).replaceAll(
    'portico-operator.tools',
    'portico-operator.portico-system',
  )
  assert.equal(renderOverlay('namespace: tools\n', '.'), JSON.parse(text))
  for (const [name, { metadata }] of Object.entries(renderOverlay('namespace: tools\n', '.')))
    assert.ok([undefined, 'tools'].includes(metadata.namespace), name)
})

/** The name of the ConfigMap with the console's configuration, which kustomize generates with a hash. */
const consoleConfigIn = (found: Record<string, Found>, namespace: string) =>
  Object.keys(found).find((name) => name.startsWith(`ConfigMap ${namespace}/portico-console`)) ?? 'none'

/** Returns the objects without the console's configuration and its hashes, and the configuration itself. */
function withoutConfig(
  found: Record<string, Found>,
  namespace = 'portico-system',
): readonly [Record<string, Found>, object] {
  const configName = consoleConfigIn(found, namespace)
  const { [configName]: map, ...rest } = structuredClone(found)
  const { template } = unwrap(rest[`Deployment ${namespace}/portico-console`]).spec
  Object.assign(template, { metadata: { labels: template.metadata.labels } })
  Object.assign(template.spec, {
    volumes: JSON.parse(JSON.stringify(template.spec).replace(/portico-console-\w+/g, 'portico-console')).volumes,
  })
  return [rest, parse(String(unwrap(map).data['console.yaml']))]
}

test('with the console too: a pod without token, an account without Role, and roles for viewers', () => {
  const consoleOn = { enabled: true }
  for (const [base, others] of [
    ['.', { crds: { keep: false } }],
    ['namespaced', { namespaces: ['portico-system'], crds: { install: false } }],
  ] as const) {
    const { 'Namespace /portico-system': _, ...built } = renderOverlay(
      'components: [../operator/deploy/console]\n',
      base,
    )
    const [found, config] = withoutConfig(renderChart({ ...others, console: consoleOn }))
    const [other, otherConfig] = withoutConfig(built)
    assert.equal(found, other)
    assert.equal(config, otherConfig)
    assert.equal(readArgs(found).slice(-2), ['--admin-from', '$(POD_NAMESPACE)/app.kubernetes.io/name=portico-console'])
    const { spec } = unwrap(found['Deployment portico-system/portico-console'])
    assert.is(spec.template.spec.automountServiceAccountToken, false)
    const bound = Object.values(found).flatMap(({ subjects = [] }) => subjects)
    assert.not(bound.some(({ name }: { name: string }) => name === 'portico-console'))
    assert.ok(found['NetworkPolicy portico-system/portico-console'])
  }
})

test('the console’s file is read by the console: the default, and what values say', () => {
  const oidc = {
    issuerUrl: 'https://login.example.com',
    clientId: 'x',
    clientSecretFile: '/etc/portico/secrets/client',
  }
  const config = {
    publicUrl: 'https://console.example.com',
    login: { oidc },
    session: { keyFiles: ['/etc/portico/secrets/key'] },
  }
  for (const [console, apiGroup, expected] of [
    [{}, 'portico.dev', { publicUrl: 'http://127.0.0.1:4480', login: { token: {} } }],
    [{ config, replicas: 2, secretName: 'own' }, 'mcp.example.org', config],
  ] as const) {
    const values = { console: { enabled: true, viewerRoles: false, ...console }, apiGroup, crds: { install: false } }
    const found = renderChart(values, 'tools')
    const map = unwrap(found[consoleConfigIn(found, 'tools')])
    const text = String(map.data['console.yaml'])
    const { publicUrl, login } = parseConsole(text)
    assert.is(publicUrl, expected.publicUrl)
    assert.equal(Object.keys(login), Object.keys(expected.login))
    assert.equal(parse(text), { apiGroup, ...expected })
    const { spec } = unwrap(found['Deployment tools/portico-console'])
    assert.match(
      JSON.stringify(spec.template.spec),
      `"secretName":"${'secretName' in console ? 'own' : 'portico-console'}"`,
    )
    assert.not(Object.keys(found).some((name) => name.startsWith('ClusterRole /portico-viewer')))
  }
  const computeHash = (config: object) =>
    unwrap(renderChart({ console: { enabled: true, config }, crds })['Deployment portico-system/portico-console']).spec
      .template.metadata.annotations
  assert.not.equal(computeHash(config), computeHash({ ...config, logLevel: 'debug' }))
})

test('the webhook is limited to the namespaces of its release, and named after it', () => {
  const found = renderChart(
    { namespaces: ['team-a', '123'], apiGroup: 'mcp.example.org', admission: { enabled: true }, crds },
    'ops',
  )
  const { webhooks } = found['ValidatingWebhookConfiguration /portico-operator.ops'] as Found
  assert.is(webhooks[0].name, 'warnings.mcp.example.org')
  assert.is(webhooks[0].failurePolicy, 'Ignore')
  assert.is(webhooks[0].clientConfig.service.namespace, 'ops')
  assert.equal(webhooks[0].namespaceSelector.matchExpressions[0].values, ['team-a', '123'])
  assert.equal(webhooks[0].rules[0].apiGroups, ['mcp.example.org'])
  // The files leave out what the operator writes itself, so that applying them again does not overwrite it.
  assert.not('data' in (found['Secret ops/portico-operator-admission'] as Found))
  assert.not('caBundle' in webhooks[0].clientConfig)
  const rules = Object.values(found).flatMap(({ kind, rules = [] }) => (/Role$/.test(kind) ? rules : []))
  const ofWebhooks = rules.filter(({ resources }) => resources.includes('validatingwebhookconfigurations'))
  assert.equal(
    ofWebhooks.map(({ verbs, resourceNames }) => [verbs, resourceNames]),
    [[['get', 'patch'], ['portico-operator.ops']]],
  )
})

test('the overlay in docs/install.md gives the same objects as the values beside it', () => {
  const text = readFileSync(join(DEPLOY, '../../docs/install.md'), 'utf8')
  const [overlay = '', valuesText = ''] = [...text.matchAll(/^```yaml\n(.*?)^```/gms)].map((match) => match[1])
  const folder = mkdtempSync(join(home, 'overlay-'))
  writeFileSync(join(folder, 'kustomization.yaml'), overlay.replace('../operator/deploy', relative(folder, DEPLOY)))
  const { 'Namespace /portico-system': _, ...built } = buildKustomize(folder)
  assert.equal(readArgs(built), ['--api-group', 'portico.dev', '--admin-from=monitoring'])
  const found = renderChart({ ...parse(valuesText), crds: { keep: false } })
  assert.equal(readArgs(found), ['--api-group', 'portico.dev', '--admin-from', 'monitoring'])
  findOperator(found).template.spec.containers[0].args = findOperator(built).template.spec.containers[0].args
  assert.equal(found, built)
})

test('by default the CRDs stay when a release is uninstalled', () => {
  for (const [name, one] of Object.entries(renderChart({}))) {
    const isDefinition = name.startsWith('CustomResourceDefinition ')
    assert.is(one.metadata.annotations !== undefined, isDefinition, name)
    if (isDefinition) assert.equal(one.metadata.annotations, { 'helm.sh/resource-policy': 'keep' })
  }
})

test('the API group is a value, of everything', () => {
  const found = renderChart({ apiGroup: 'mcp.example.org' })
  assert.not.match(JSON.stringify(found), 'portico.dev')
  assert.is(found['CustomResourceDefinition /mcpservers.mcp.example.org']?.spec['group'], 'mcp.example.org')
  assert.equal(readArgs(found), ['--api-group', 'mcp.example.org'])
  assert.equal(found['ClusterRole /portico-operator']?.rules[0].apiGroups, ['mcp.example.org'])
})

test('each of several namespaces has a Role, and there is no ClusterRole', () => {
  const found = renderChart({ namespaces: ['team-a', '123'], crds }, 'ops')
  assert.not(Object.keys(found).some((name) => name.startsWith('ClusterRole')))
  for (const namespace of ['team-a', '123']) {
    assert.ok(found[`Role ${namespace}/portico-operator`])
    assert.equal(found[`RoleBinding ${namespace}/portico-operator`]?.subjects[0].namespace, 'ops')
  }
  assert.not(found['Role ops/portico-operator'])
  assert.ok(found['Role ops/portico-operator-lease'])
  const { args } = findOperator(found, 'ops').template.spec.containers[0]
  assert.equal(args.slice(4), ['--namespace', 'team-a', '--namespace', '123'])
})

test('each value reaches its field', () => {
  const digest = `sha256:${'0'.repeat(64)}`
  const toleration = { key: 'dedicated', operator: 'Exists' }
  const found = renderChart({
    image: { repository: 'registry.example/portico', digest, pullPolicy: 'Always' },
    dataPlaneImage: 'registry.example/plane:2',
    imagePullSecrets: [{ name: 'pull' }],
    replicas: 0,
    workers: 8,
    podTemplate: 'any',
    podUsers: 'platform',
    adminFrom: ['monitoring/app.kubernetes.io/name=prometheus', '10.0.0.0/8'],
    logLevel: 'debug',
    resources: { limits: { memory: '1Gi' } },
    runAsUser: null,
    serviceAccountAnnotations: { 'example.org/role': 'x' },
    podAnnotations: { 'prometheus.io/scrape': 'true' },
    podLabels: { team: 'platform' },
    nodeSelector: { 'kubernetes.io/os': 'linux' },
    tolerations: [toleration],
    affinity: { nodeAffinity: {} },
    topologySpreadConstraints: [{ maxSkew: 1 }],
    priorityClassName: 'system-cluster-critical',
    crds,
  })
  const { replicas, template: pod } = findOperator(found)
  const [container] = pod.spec.containers
  assert.is(replicas, 0)
  assert.is(container.image, `registry.example/portico@${digest}`)
  assert.is(container.imagePullPolicy, 'Always')
  assert.equal(readArgs(found).slice(2), [
    '--image',
    'registry.example/plane:2',
    '--workers',
    '8',
    '--pod-template',
    'any',
    '--pod-users',
    'platform',
    '--admin-from',
    'monitoring/app.kubernetes.io/name=prometheus',
    '--admin-from',
    '10.0.0.0/8',
  ])
  assert.equal(container.env[2], { name: 'PORTICO_LOG_LEVEL', value: 'debug' })
  // Helm merges maps.
  assert.equal(container.resources, { limits: { memory: '1Gi' }, requests: { cpu: '50m', memory: '192Mi' } })
  assert.equal(Object.keys(pod.spec.securityContext), ['runAsNonRoot', 'seccompProfile'])
  assert.equal(pod.metadata.annotations, { 'prometheus.io/scrape': 'true' })
  assert.is(pod.metadata.labels.team, 'platform')
  assert.is(pod.metadata.labels['app.kubernetes.io/name'], 'portico-operator')
  const { nodeSelector, tolerations, affinity, topologySpreadConstraints, priorityClassName, imagePullSecrets } =
    pod.spec
  assert.equal(
    { nodeSelector, tolerations, affinity, topologySpreadConstraints, priorityClassName, imagePullSecrets },
    {
      nodeSelector: { 'kubernetes.io/os': 'linux' },
      tolerations: [toleration],
      affinity: { nodeAffinity: {} },
      topologySpreadConstraints: [{ maxSkew: 1 }],
      priorityClassName: 'system-cluster-critical',
      imagePullSecrets: [{ name: 'pull' }],
    },
  )
  const account = found['ServiceAccount portico-system/portico-operator']
  assert.equal(account?.metadata.annotations, { 'example.org/role': 'x' })
})

test('an installation with a name shares no object with one of another namespace', () => {
  const values = { admission: { enabled: true }, console: { enabled: true }, crds: { install: false } }
  const plain = renderChart(values, 'one')
  for (const namespaces of [[], ['team']]) {
    const named = renderChart({ ...values, namespaces, installation: 'blue' }, 'two')
    assert.equal(
      Object.keys(named).filter((name) => name in renderChart({ ...values, namespaces }, 'one')),
      [],
    )
    assert.ok(readArgs(named, 'two').join(' ').includes('--installation blue'))
    const { webhooks } = named['ValidatingWebhookConfiguration /portico-operator.two'] as Found
    const [expression] = webhooks[0].objectSelector.matchExpressions
    assert.equal(expression, { key: 'portico.dev/installation', operator: 'In', values: ['blue'] })
  }
  // The operator may grant only rights that it has itself.
  const { rules } = renderChart({ ...values, installation: 'blue' }, 'two')[
    'ClusterRole /portico-operator-for-blue'
  ] as Found
  const own = rules.filter(({ resources }) => resources.includes('clusterroles'))
  assert.equal(own[0]?.resourceNames, ['portico-operator-for-blue'])
  const { webhooks } = plain['ValidatingWebhookConfiguration /portico-operator.one'] as Found
  const [expression] = webhooks[0].objectSelector.matchExpressions
  assert.equal(expression, { key: 'portico.dev/installation', operator: 'DoesNotExist' })
})

test('each value is in the defaults, in the schema and in the README, with the same default', () => {
  const defaults = parse(readFileSync(join(CHART, 'values.yaml'), 'utf8'))
  const { properties } = JSON.parse(readFileSync(join(CHART, 'values.schema.json'), 'utf8'))
  assert.equal(Object.keys(defaults), Object.keys(values))
  assert.equal(Object.keys(properties), [...Object.keys(values), 'global'])
  const readme = readFileSync(join(CHART, 'README.md'), 'utf8')
  for (const name of Object.keys(values)) assert.match(readme, new RegExp(`\\| \`${name}[.\`]`), name)
})

for (const [values, pointer] of [
  [{ replica: 1 }, /replica/],
  [{ replicas: '2' }, /replicas/],
  [{ replicas: -1 }, /replicas/],
  [{ apiGroup: 'portico' }, /apiGroup/],
  [{ apiGroup: 'a.b\n  injected: true' }, /apiGroup/],
  [{ namespaces: ['a', 'a'] }, /namespaces/],
  [{ namespaces: ['A b'] }, /namespaces/],
  [{ image: { digest: 'latest' } }, /digest/],
  [{ image: { name: 'x' } }, /image/],
  [{ crds: { keep: 'yes' } }, /keep/],
  [{ logLevel: 'loud' }, /logLevel/],
  [{ podTemplate: 'privileged' }, /podTemplate/],
  [{ podUsers: 'root' }, /podUsers/],
  [{ admission: true }, /admission/],
  [{ admission: { enabled: 'yes' } }, /enabled/],
  [{ console: { enabled: true, replicas: 2 } }, /keyFiles|session|console/],
  [{ console: { enable: true } }, /enable/],
  [{ runAsUser: 0 }, /runAsUser/],
  [{ workers: 65 }, /workers/],
  [{ installation: 'Blue' }, /installation/],
  [{ installation: 'a'.repeat(41) }, /installation/],
  [{ installation: 'blue', podTemplate: 'any' }, /namespaces/],
  [{ podLabels: { 'app.kubernetes.io/name': 'mine' } }, /'app\.kubernetes\.io\/name'/],
] as const) {
  test(`refused: ${JSON.stringify(values)}`, () => {
    const { status, stdout, stderr } = template(values)
    assert.is.not(status, 0)
    assert.is(stdout, '')
    assert.match(stderr, pointer)
  })
}

test('helm lint has nothing to say, whatever is set', () => {
  for (const values of [
    {},
    { namespaces: ['a'], crds: { install: false }, replicas: 0, admission: { enabled: true } },
    { installation: 'blue', admission: { enabled: true }, console: { enabled: true } },
  ]) {
    const { status, stdout, stderr } = helm(home, ['lint', CHART, '--strict', '--values', '-'], JSON.stringify(values))
    assert.is(status, 0, `${stdout}${stderr}`)
    assert.not.match(stdout, /\[(WARNING|ERROR)\]/)
  }
})

test.run()
