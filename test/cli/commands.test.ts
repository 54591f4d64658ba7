import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { parseAllDocuments } from 'yaml'
import { dispatch } from '../../cli/dispatch.ts'
import { temporaryFolder } from '../support/folder.ts'

interface Outcome {
  readonly code: number
  readonly out: string
  readonly err: string
}

async function portico(argv: readonly string[], env: Record<string, string> = {}): Promise<Outcome> {
  let out = ''
  let err = ''
  const code = await dispatch(argv, {
    out: (text) => {
      out += text
    },
    err: (line) => {
      err += `${line}\n`
    },
    env,
    stop: AbortSignal.abort(),
  })
  return { code, out, err }
}

const group = 'apiVersion: portico.dev/v1beta1\nkind: MCPGroup\nmetadata:\n  name: g\nspec: {}\n'
const gateway = (groupRef: string) =>
  `apiVersion: portico.dev/v1beta1\nkind: VirtualMCPServer\nmetadata:\n  name: v\nspec:\n  groupRef:\n    name: ${groupRef}\n  incomingAuth:\n    type: anonymous\n`
const server =
  'apiVersion: portico.dev/v1beta1\nkind: MCPServer\nmetadata:\n  name: s\nspec:\n  image: someone/server\n  transport: streamable-http\n  groupRef:\n    name: g\n'

const usage: readonly (readonly [argv: string, message: string, env?: Record<string, string>])[] = [
  ['', "portico: a command is missing; see 'portico --help'"],
  ['valdate', "portico: unknown command valdate; did you mean validate?; see 'portico --help'"],
  ['constructor', "portico: unknown command constructor; see 'portico --help'"],
  ['validate --bogus x', 'unknown option --bogus; known are --output'],
  ['validate', "portico: validate: files or folders of manifests are missing; see 'portico validate --help'"],
  ['validate --output xml x', 'portico: validate: --output xml: takes one of text, json, sarif'],
  ['render', 'files or folders of manifests are missing'],
  ['render --image= x', 'portico: render: --image is empty'],
  ['render --admin-from 10.0.0.0/33 x', 'portico: render: --admin-from 10.0.0.0/33: takes NAMESPACE, NAMESPACE/'],
  [
    'operator --installation blue --pod-template any',
    'portico: operator: --pod-template any: with --installation blue it needs --namespace',
  ],
  ['operator --installation Blue', 'portico: operator: --installation Blue: takes a name of at most 40 lower-case'],
  ['operator --admin-from a/b', 'portico: operator: --admin-from a/b: takes NAMESPACE, NAMESPACE/'],
  ['run --host nonsense.invalid .', "--host nonsense.invalid: this machine can't listen there"],
  ['serve', 'what to serve is missing: gateway or registry'],
  ['serve pod --config x', "can't serve pod: takes gateway or registry"],
  ['serve gateway', '--config is missing'],
  ['serve gateway --config', '--config'],
  ['serve gateway more --config x', 'too many arguments: more'],
  ['serve gateway --config x --listen 8080', '--listen: not an address: "8080" (write HOST:PORT'],
  ['operator --health-listen :99999', '--health-listen: not an address: ":99999"'],
  ['crds --group nodot', '--group nodot: a group is a DNS name with a dot'],
  ['crds more', 'too many arguments: more'],
  ['version more', 'too many arguments: more'],
  ['version', 'PORTICO_API_GROUP no group: a group is a DNS name', { PORTICO_API_GROUP: 'no group' }],
  ['run samples/quickstart', 'PORTICO_LOG_LEVEL loud: takes one of debug', { PORTICO_LOG_LEVEL: 'loud' }],
]

for (const [argv, message, env] of usage) {
  test(`wrong usage: portico ${argv} ${JSON.stringify(env ?? {})}`, async () => {
    const { code, out, err } = await portico(argv.split(' ').filter(Boolean), env)
    assert.is(code, 2)
    assert.is(out, '')
    assert.is(err.split('\n').length, 2, 'one line')
    assert.ok(err.includes(message), err)
  })
}

test('every command explains itself, and the overview names them all', async () => {
  const overview = await portico(['--help'])
  assert.is(overview.code, 0)
  for (const name of ['run', 'serve', 'render', 'validate', 'crds', 'version']) {
    assert.match(overview.out, new RegExp(`^  ${name} `, 'm'))
    const { code, out, err } = await portico([name, '--wrong', '--help'])
    assert.equal([code, err], [0, ''])
    assert.match(out, `Usage: portico ${name} `)
  }
})

test('version', async () => {
  const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string }
  const result = await portico(['version', '--output', 'json'], { PORTICO_API_GROUP: 'mcp.example.com' })
  assert.equal(JSON.parse(result.out), { version, node: process.versions.node, apiGroup: 'mcp.example.com' })
  assert.match((await portico(['--version'])).out, `portico ${version}\n`)
})

test('validate: errors in one line each with file, line and pointer; exit 1', async () => {
  using folder = temporaryFolder({ 'a.yaml': server.replace('  groupRef', '  mcpPort: 99999\n  groupRef') })
  const { code, out, err } = await portico(['validate', folder.path])
  assert.is(code, 1)
  assert.match(err, `${folder.path}/a.yaml:8: error: /spec/mcpPort: must be`)
  assert.match(out, '1 object checked (portico.dev): 1 error, 0 warnings')
})

test('validate: an unknown reference is an error at the place that makes it', async () => {
  using folder = temporaryFolder({ 'a.yaml': `${group}---\n${gateway('nowhere')}` })
  const { code, err } = await portico(['validate', folder.path])
  assert.is(code, 1)
  assert.match(
    err,
    /a\.yaml:13: error: \/spec\/groupRef\/name: VirtualMCPServer default\/v: MCPGroup "nowhere" is missing \(ReferenceNotFound\)/,
  )
})

test('validate: an invalid object in the files is not reported as missing', async () => {
  const oidc =
    'apiVersion: portico.dev/v1beta1\nkind: MCPOIDCConfig\nmetadata:\n  name: o\nspec:\n  type: inline\n  inline:\n    issuer: 7\n'
  const map = 'apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: m\ndata: 7\n'
  const policies =
    '    authzConfig:\n      type: configMap\n      configMap:\n        name: m\n        key: authz.json\n'
  const asking = `${gateway('g').replace('anonymous', 'oidc')}    audience: a\n    oidcConfigRef:\n      name: o\n${policies}`
  using folder = temporaryFolder({ 'a.yaml': [group, oidc, map, asking].join('---\n') })
  const { code, err } = await portico(['validate', folder.path])
  assert.is(code, 1)
  assert.match(err, '/spec/inline/issuer')
  assert.match(err, 'VirtualMCPServer default/v: MCPOIDCConfig "o" is not valid itself')
  assert.match(err, 'VirtualMCPServer default/v: ConfigMap "m" is not valid itself')
  assert.not.match(err, 'is missing')
})

test('validate: logins without an identity and other doubtful settings are warnings', async () => {
  const provider =
    '      - name: code\n        type: oauth2\n        oauth2Config:\n          authorizationEndpoint: https://c.example/a\n          tokenEndpoint: https://c.example/t\n          clientId: x\n'
  const oidc =
    'apiVersion: portico.dev/v1beta1\nkind: MCPOIDCConfig\nmetadata:\n  name: o\nspec:\n  type: inline\n  inline:\n    issuer: https://as.example\n    clientId: unused\n'
  const login = `  authServerConfig:\n    issuer: https://as.example\n    upstreamProviders:\n${provider}`
  const asking = `${gateway('g').replace('anonymous', 'oidc')}    audience: a\n    oidcConfigRef:\n      name: o\n${login}`
  using folder = temporaryFolder({ 'a.yaml': [group, oidc, asking].join('---\n') })
  const { code, err } = await portico(['validate', folder.path])
  assert.is(code, 0)
  assert.match(err, /warning: .*neither userInfo nor identityFromToken.*\(NoIdentity\)/)
  assert.match(err, /a\.yaml:\d+: warning: .*\/spec\/inline\/clientId has no effect.*\(NoEffect\)/)
})

test('validate: a missing file is reported without a line, and no message is meant for programmers', async () => {
  const { code, err } = await portico(['validate', '/nowhere/at/all'])
  assert.equal([code, err], [1, '/nowhere/at/all: error: no such file or folder (FileMissing)\n'])
  const registry =
    'apiVersion: portico.dev/v1beta1\nkind: MCPRegistry\nmetadata:\n  name: r\nspec:\n  configYAML: |\n    sources: []\n    ---\n    registries: []\n'
  using folder = temporaryFolder({ 'a.yaml': registry })
  const result = await portico(['validate', folder.path])
  assert.match(result.err, 'must be one YAML document')
  assert.not.match(result.err, 'parseAllDocuments')
})

test('validate: each missing reference of an object is reported at its own place', async () => {
  const spec =
    '  groupRef:\n    name: nowhere\n  incomingAuth:\n    type: oidc\n    audience: a\n    oidcConfigRef:\n      name: nobody\n'
  const head = 'apiVersion: portico.dev/v1beta1\nkind: VirtualMCPServer\nmetadata:\n  name: v\nspec:\n'
  using folder = temporaryFolder({ 'a.yaml': head + spec })
  const { out } = await portico(['validate', folder.path, '--output', 'json'])
  const { findings } = JSON.parse(out) as { findings: { severity: string; line: number; pointer?: string }[] }
  assert.equal(
    findings.filter(({ severity }) => severity === 'error').map(({ line, pointer }) => [line, pointer]),
    [
      [7, '/spec/groupRef/name'],
      [12, '/spec/incomingAuth/oidcConfigRef/name'],
    ],
  )
})

test('validate: a refused field is one error at its place', async () => {
  using folder = temporaryFolder({ 'a.yaml': `${group}---\n${server}  webhookConfigRef:\n    name: hooks\n` })
  const { code, err } = await portico(['validate', folder.path])
  assert.is(code, 1)
  assert.match(err, /a\.yaml:1[67]: error: \/spec\/webhookConfigRef[^\n]*: webhooks are not supported \(NotSupported\)/)
  assert.is(err.split('NotSupported').length, 2, err)
})

test('validate: a problem of a workflow is reported at its place and at the gateway that leaves it out', async () => {
  const composed = `${gateway('g')}  config:\n    compositeToolRefs: [{name: it}, {name: gone}]\n`
  using folder = temporaryFolder({
    'a.yaml': `${group}---\n${composed}`,
    'b.yaml':
      'apiVersion: portico.dev/v1beta1\nkind: VirtualMCPCompositeToolDefinition\nmetadata: {name: it}\nspec:\n  name: flow\n  steps:\n    - id: a\n      tool: x.y\n      condition: "{{.params.n"\n',
  })
  const { code, err } = await portico(['validate', folder.path])
  assert.is(code, 1)
  assert.match(
    err,
    /b\.yaml:9: error: \/spec\/steps\/0\/condition: VirtualMCPCompositeToolDefinition [^\n]*\(ConfigInvalid\)/,
  )
  assert.match(
    err,
    /warning: VirtualMCPServer [^\n]*Definition "gone" is left out: it is missing; [^\n]*"it" is left out: \/spec\/steps\/0\/condition/,
  )
})

test('validate: a Secret that is not in the files is expected in the cluster', async () => {
  const withSecret = `${server}  secrets:\n    - name: token\n      key: value\n      targetEnvName: TOKEN\n`
  using folder = temporaryFolder({ 'a.yaml': `${group}---\n${withSecret}` })
  const { code, err } = await portico(['validate', folder.path])
  assert.is(code, 0, err)
  assert.match(err, 'note: MCPServer default/s: Secret "token" is not in these files; it must be in the cluster')
})

test('validate: JSON and SARIF hold the findings', async () => {
  using folder = temporaryFolder({ 'a.yaml': 'apiVersion: portico.dev/v1beta1\nkind: MCPGruop\nmetadata: {name: a}\n' })
  const json = await portico(['validate', '--output', 'json', folder.path])
  assert.equal([json.code, json.err], [1, ''])
  const { findings } = JSON.parse(json.out) as { findings: { reason: string; line: number; pointer: string }[] }
  assert.equal(
    findings.map(({ reason, line, pointer }) => [reason, line, pointer]),
    [['KindUnknown', 2, '/kind']],
  )
  const sarif = JSON.parse((await portico(['validate', '--output', 'sarif', folder.path])).out) as {
    version: string
    runs: { results: { ruleId: string; level: string; locations: unknown[] }[] }[]
  }
  assert.is(sarif.version, '2.1.0')
  const [result] = sarif.runs[0]?.results ?? []
  assert.equal([result?.ruleId, result?.level], ['KindUnknown', 'error'])
  assert.equal(result?.locations, [
    {
      physicalLocation: { artifactLocation: { uri: `${folder.path}/a.yaml` }, region: { startLine: 2 } },
      logicalLocations: [{ fullyQualifiedName: '/kind' }],
    },
  ])
})

test('render: the same bytes twice, whatever the order of the files', async () => {
  using one = temporaryFolder({ 'a.yaml': group, 'b.yaml': server, 'c.yaml': gateway('g') })
  using other = temporaryFolder({ 'a.yaml': gateway('g'), 'b.yaml': `${server}---\n${group}` })
  const first = await portico(['render', one.path])
  assert.equal([first.code, first.err], [0, ''])
  assert.is((await portico(['render', one.path])).out, first.out)
  assert.is((await portico(['render', other.path])).out, first.out)
  const kinds = parseAllDocuments(first.out).map((document) => document.get('kind'))
  assert.equal(kinds.filter((kind) => kind === 'Deployment').length, 2)
  assert.equal(kinds.includes('VirtualMCPServer'), false)
})

test('render: invalid manifests print nothing', async () => {
  using folder = temporaryFolder({ 'a.yaml': `${group}---\n${server}`, 'b.yaml': gateway('nowhere') })
  const { code, out, err } = await portico(['render', folder.path])
  assert.equal([code, out], [1, ''])
  assert.match(err, 'b.yaml:7: error: /spec/groupRef/name: ')
})

test('render --status: shows references and problems', async () => {
  using folder = temporaryFolder({ 'a.yaml': `${group}---\n${server}`, 'b.yaml': gateway('nowhere') })
  const { code, out } = await portico(['render', '--status', folder.path])
  assert.is(code, 1)
  const statuses = parseAllDocuments(out).map((document) => document.toJS())
  const findStatus = (kind: string) => statuses.find((object) => object.kind === kind && object.status)?.status
  assert.equal(findStatus('MCPGroup').servers, ['s'])
  const ready = findStatus('VirtualMCPServer').conditions.find(({ type }: { type: string }) => type === 'Ready')
  assert.equal([ready.status, ready.reason], ['False', 'ReferenceNotFound'])
})

test('validate and render: a template that takes over the node is an error, except with --pod-template=any', async () => {
  using folder = temporaryFolder({ 'a.yaml': `${group}---\n${server}  podTemplateSpec: {spec: {hostPID: true}}\n` })
  for (const command of ['validate', 'render']) {
    const { code, err } = await portico([command, folder.path])
    assert.is(code, 1)
    assert.match(err, /a\.yaml:\d+: error: .*hostPID is forbidden by Pod Security .* \(PodSecurityViolation\)/)
    const any = await portico([command, folder.path, '--pod-template=any'])
    assert.is(any.code, 0, any.err)
  }
})

test('render: admin listeners admit the operator of its namespace and the named namespaces', async () => {
  using folder = temporaryFolder({ 'a.yaml': `${group}---\n${server}` })
  const args = ['--operator-namespace', 'tools', '--admin-from', 'monitoring', '--admin-from', '10.0.0.0/8']
  const { out } = await portico(['render', folder.path, ...args])
  const policy = parseAllDocuments(out)
    .map((document) => document.toJS())
    .find(({ kind }) => kind === 'NetworkPolicy')
  const inNamespace = (name: string) => ({
    namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': name } },
  })
  assert.equal(policy.spec.ingress[1].from, [
    { ...inNamespace('tools'), podSelector: { matchLabels: { 'app.kubernetes.io/name': 'portico-operator' } } },
    inNamespace('monitoring'),
    { ipBlock: { cidr: '10.0.0.0/8' } },
  ])
})

test('render -o: writes one file per owner and deletes only files that it wrote and no longer needs', async () => {
  using folder = temporaryFolder({
    'in/a.yaml': `${group}---\n${server}`,
    'in/b.yaml': gateway('g'),
    'out/own.yaml': 'x',
  })
  const out = join(folder.path, 'out')
  await portico(['render', join(folder.path, 'in'), '-o', out])
  assert.equal(readdirSync(out), ['mcpserver-default.s.yaml', 'own.yaml', 'virtualmcpserver-default.v.yaml'])
  await portico(['render', join(folder.path, 'in/a.yaml'), '-o', out])
  assert.equal(readdirSync(out), ['mcpserver-default.s.yaml', 'own.yaml'])
})

test('render: text that YAML 1.1 takes for something else is quoted', async () => {
  using folder = temporaryFolder({ 'a.yaml': `${group}---\n${server}  env:\n    - name: A\n      value: "no"\n` })
  assert.match((await portico(['render', folder.path])).out, /name: A\n +value: "no"\n/)
})

test('render takes the group of the manifests', async () => {
  using folder = temporaryFolder({ 'a.yaml': `${group}---\n${server}`.replaceAll('portico.dev', 'mcp.example.com') })
  const { code, out } = await portico(['render', folder.path])
  assert.is(code, 0)
  assert.match(out, 'mcp.example.com/config-hash')
  assert.not.match(out, 'portico.dev')
})

test('crds: every kind, in the group that is asked for; -o writes what kubectl apply -k takes', async () => {
  const { code, out } = await portico(['crds', '--group', 'mcp.example.com'])
  assert.is(code, 0)
  const definitions = parseAllDocuments(out).map((document) => document.toJS())
  assert.is(definitions.length, 13)
  assert.ok(definitions.every(({ spec }) => spec.group === 'mcp.example.com'))
  using folder = temporaryFolder()
  await portico(['crds', '-o', join(folder.path, 'out')], { PORTICO_API_GROUP: 'mcp.example.com' })
  const files = readdirSync(join(folder.path, 'out'))
  assert.is(files.length, 14)
  assert.ok(files.includes('kustomization.yaml'))
})

test('serve: an invalid config is refused with every finding and its line', async () => {
  using folder = temporaryFolder({
    'gateway.yaml': 'name: x\nnamespace: y\nincomingAuth:\n  type: nobody\nbackends: 3\n',
  })
  const { code, err } = await portico(['serve', 'gateway', '--config', join(folder.path, 'gateway.yaml')])
  assert.is(code, 1)
  assert.match(err, /gateway\.yaml:4: \/incomingAuth\/type: /)
  assert.match(err, /gateway\.yaml:5: \/backends: /)
})

test('run: a missing folder is an error', async () => {
  const { code, err } = await portico(['run', '/nowhere/at/all'])
  assert.equal([code, err], [1, '/nowhere/at/all: no such file or folder\n'])
})

test('render: says if there is nothing to render', async () => {
  using folder = temporaryFolder({ 'empty.yaml': '# nothing yet\n' })
  const { code, out, err } = await portico(['render', join(folder.path, 'empty.yaml')])
  assert.equal([code, out], [0, ''])
  assert.match(err, 'nothing is rendered: these files have no object of Portico’s API group')
})

test('a file in place of a folder and a missing file are named', async () => {
  using folder = temporaryFolder({ 'g.yaml': group, file: '' })
  const file = join(folder.path, 'file')
  for (const argv of [
    ['render', join(folder.path, 'g.yaml'), '-o', file],
    ['crds', '-o', file],
    ['run', join(folder.path, 'g.yaml'), '--state', file],
  ]) {
    const { code, err } = await portico(argv)
    assert.equal([code, err], [1, `portico: ${file}: is not a folder\n`], argv.join(' '))
  }
  const missing = join(folder.path, 'kubeconfig')
  const { code, err } = await portico(['operator', '--kubeconfig', missing])
  assert.equal([code, err], [1, `portico: ${missing}: no such file or folder\n`])
})

test.run()
