import { symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { checkManifests, type ManifestFinding, readManifests } from '../../../operator/cluster/files/index.ts'
import { temporaryFolder } from '../../support/folder.ts'

const group = (name: string, rest = 'spec: {}') =>
  `apiVersion: portico.dev/v1beta1\nkind: MCPGroup\nmetadata:\n  name: ${name}\n${rest}\n`

const server = (name: string, spec: string) =>
  `apiVersion: portico.dev/v1beta1\nkind: MCPServer\nmetadata:\n  name: ${name}\nspec:\n  image: someone/server\n  transport: streamable-http\n${spec}`

const listFindings = (findings: readonly ManifestFinding[], folder: string) =>
  findings.map(
    ({ severity, reason, file, line, pointer }) =>
      `${file.slice(folder.length + 1)}:${line} ${severity} ${reason}${pointer ? ` ${pointer}` : ''}`,
  )

const listNames = (set: ReturnType<typeof readManifests>) =>
  set.manifests.map(({ id }) => `${id.kind} ${id.namespace}/${id.name}`)

test('files of a folder and below are read in order of name, with several documents each, and JSON', () => {
  using folder = temporaryFolder({
    'b.yaml': `${group('b')}---\n# nothing\n---\n${group('c')}`,
    'sub/a.yml': group('a'),
    'a.json':
      '{\n\t"apiVersion": "portico.dev/v1beta1",\n\t"kind": "MCPGroup",\n\t"metadata": {"name": "j"},\n\t"spec": {}\n}',
    'notes.txt': 'not: [read',
    'node_modules/x/x.yaml': 'not: [read',
    '.hidden/x.yaml': 'not: [read',
  })
  const set = readManifests([folder.path])
  assert.equal(set.findings, [])
  assert.equal(
    listNames(set),
    ['j', 'b', 'c', 'a'].map((name) => `MCPGroup default/${name}`),
  )
})

test('a file given twice, or by a link, is read once; a circle of links ends', () => {
  using folder = temporaryFolder({ 'a.yaml': group('a') })
  symlinkSync(join(folder.path, 'a.yaml'), join(folder.path, 'b.yaml'))
  symlinkSync(folder.path, join(folder.path, 'loop'))
  const set = readManifests([folder.path, join(folder.path, 'a.yaml')])
  assert.equal(set.findings, [])
  assert.is(set.manifests.length, 1)
})

test('scalars are read as kubectl reads them: YAML 1.1 booleans and octals, no base 60, no timestamps', () => {
  using folder = temporaryFolder({
    'a.yaml': group('a', 'spec:\n  a: no\n  b: 0777\n  c: 12:30\n  d: 2020-01-01\n  e: "no"\n  f: 1_000\n  g: y'),
  })
  const set = readManifests([folder.path])
  const spec = set.manifests[0]?.object['spec']
  assert.equal(spec, { a: false, b: 511, c: '12:30', d: '2020-01-01', e: 'no', f: 1000, g: true })
  assert.equal(listFindings(set.findings, folder.path), [
    'a.yaml:6 warning WordReadAsBoolean /spec/a',
    'a.yaml:12 warning WordReadAsBoolean /spec/g',
  ])
})

test('a wrong type says what YAML made of the word', () => {
  using folder = temporaryFolder({
    'a.yaml': server('a', '  env:\n    - name: A\n      value: no\n    - name: B\n      value: 1.10\n'),
  })
  const { findings } = checkManifests(readManifests([folder.path]))
  assert.equal(listFindings(findings, folder.path), [
    'a.yaml:10 error SchemaInvalid /spec/env/0/value',
    'a.yaml:12 error SchemaInvalid /spec/env/1/value',
  ])
  assert.match(findings[0]?.message ?? '', 'no without quotes is the boolean false in YAML')
  assert.match(findings[1]?.message ?? '', '1.10 without quotes is the number 1.1 in YAML')
})

test('findings have the line of their subject, in a List and through an anchor too', () => {
  using folder = temporaryFolder({
    'list.yaml':
      'apiVersion: v1\nkind: List\nitems:\n  - apiVersion: portico.dev/v1beta1\n    kind: MCPGroup\n    metadata:\n      name: a\n    spec:\n      bogus: 1\n',
    'server.yaml': server('a', '  mcpPort: &port 99999\n  proxyPort: *port\n'),
  })
  const { findings } = checkManifests(readManifests([folder.path]))
  assert.not.match(findings.map(({ message }) => message).join(), 'without quotes')
  assert.equal(listFindings(findings, folder.path), [
    'list.yaml:9 error SchemaInvalid /spec/bogus',
    'server.yaml:8 error SchemaInvalid /spec/mcpPort',
    'server.yaml:9 error SchemaInvalid /spec/proxyPort',
  ])
})

const wrong: readonly (readonly [title: string, text: string, ...expected: string[]])[] = [
  ['broken YAML', 'a: [1\nb: 2\n', 'a.yaml:2 error SyntaxInvalid'],
  ['a key twice', `${group('a')}spec: {}\n`, 'a.yaml:6 error SyntaxInvalid'],
  [
    'an alias that multiplies',
    `a: &a [x,x,x,x,x,x,x,x,x]\n${'bcdefg'
      .split('')
      .map((name, index) => `${name}: &${name} [${Array(9).fill(`*${'abcdef'[index]}`).join(',')}]`)
      .join('\n')}\n`,
    'a.yaml:1 error SyntaxInvalid',
  ],
  ['an object that holds itself', `${server('a', '  podTemplateSpec: &a {b: *a}\n')}`, 'a.yaml:1 error SyntaxInvalid'],
  [
    'an object that holds itself often',
    `${server('a', '  podTemplateSpec: &a {b: [*a, *a, *a, *a], c: *a}\n')}`,
    'a.yaml:1 error SyntaxInvalid',
  ],
  [
    'aliases of a large text',
    `big: &b "${'x'.repeat(100_000)}"\nlist: [${Array(900).fill('*b').join(',')}]\n`,
    'a.yaml:1 error SyntaxInvalid',
  ],
  ['a template without quotes', 'a: {{ .Values.a }}\n', 'a.yaml:1 error SyntaxInvalid'],
  ['keys that are maps, each of the next', `a:\n  ${'? '.repeat(100)}b\n`, 'a.yaml:2 error SyntaxInvalid'],
  ['nesting', `a: ${'['.repeat(1000)}${']'.repeat(1000)}\n`, 'a.yaml:1 error SyntaxInvalid'],
  [
    'a group that is none',
    group('a').replace('portico.dev', 'k'.repeat(300)),
    'a.yaml:1 error ApiVersionInvalid /apiVersion',
  ],
  ['a list', '- a\n', 'a.yaml:1 error NotAnObject'],
  ['an object of no kind', 'metadata: {}\n', 'a.yaml:1 error NotAnObject'],
  ['something else altogether', 'name: x\n', 'a.yaml:1 note Ignored'],
  ['no apiVersion', 'kind: MCPGroup\nmetadata: {name: a}\n', 'a.yaml:1 error ApiVersionInvalid /apiVersion'],
  ['no kind', 'apiVersion: portico.dev/v1beta1\n', 'a.yaml:1 error KindInvalid /kind'],
  [
    'another version',
    'apiVersion: portico.dev/v1alpha1\nkind: MCPGroup\nmetadata: {name: a}\n',
    'a.yaml:1 error ApiVersionInvalid /apiVersion',
  ],
  [
    'a kind that there is not',
    'apiVersion: portico.dev/v1beta1\nkind: MCPGruop\nmetadata: {name: a}\n',
    'a.yaml:2 error KindUnknown /kind',
  ],
  [
    'a kind named like a method of objects',
    'apiVersion: portico.dev/v1beta1\nkind: constructor\nmetadata: {name: a}\n',
    'a.yaml:2 error KindUnknown /kind',
  ],
  ['foreign kinds', 'apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\n', 'a.yaml:2 note Ignored /kind'],
  [
    'no name',
    'apiVersion: portico.dev/v1beta1\nkind: MCPGroup\nmetadata:\n  generateName: a\n',
    'a.yaml:3 error NameMissing /metadata/name',
  ],
  ['a wrong name', group('A_b'), 'a.yaml:4 error NameInvalid /metadata/name'],
  ['a name that is a number', group('12'), 'a.yaml:4 error NameInvalid /metadata/name'],
  [
    'a wrong namespace and wrong annotations',
    'apiVersion: portico.dev/v1beta1\nkind: MCPGroup\nmetadata:\n  name: a\n  namespace: a.b\n  annotations:\n    portico.dev/local-port: 80\n',
    'a.yaml:5 error NamespaceInvalid /metadata/namespace',
    'a.yaml:7 error MetadataInvalid /metadata/annotations/portico.dev~1local-port',
  ],
  ['an object twice', `${group('a')}---\n${group('a')}`, 'a.yaml:10 error Duplicate /metadata/name'],
  [
    'a Secret that is not base64',
    'apiVersion: v1\nkind: Secret\nmetadata: {name: a}\ndata:\n  key: plain!\n',
    'a.yaml:5 error SecretInvalid /data/key',
  ],
  [
    'a key that leads elsewhere',
    'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  ..: x\n',
    'a.yaml:5 error ConfigMapInvalid /data/..',
  ],
]

for (const [title, text, ...expected] of wrong) {
  test(`wrong input: ${title}`, () => {
    using folder = temporaryFolder({ 'a.yaml': text })
    assert.equal(listFindings(readManifests([folder.path]).findings, folder.path), expected)
  })
}

test('the time to find mistakes behind an alias, and words in the objects of a list, is linear', () => {
  const keys = Array.from({ length: 4_000 }, (_, at) => `k${at}: 1`).join()
  const object = (name: string, spec: string) =>
    `{apiVersion: portico.dev/v1beta1, kind: MCPToolConfig, metadata: {name: ${name}}, spec: ${spec}}`
  const objects = Array.from({ length: 4_000 }, (_, at) => `- ${object(`t${at}`, '{toolsFilter: [on]}')}\n`)
  using folder = temporaryFolder({
    'aliased.yaml': `${group('a', `x: &a {${keys}}\nspec: *a`)}`,
    'list.yaml': `apiVersion: v1\nkind: List\nitems:\n${objects.join('')}`,
  })
  const before = process.cpuUsage().user
  const set = readManifests([folder.path])
  const { findings } = checkManifests(set)
  assert.is(findings.filter(({ pointer }) => pointer?.startsWith('/spec/k')).length, 4_000)
  assert.is(set.findings.filter(({ reason }) => reason === 'WordReadAsBoolean').length, 4_000)
  // Searching the document once for each of them takes ten seconds.
  assert.ok(process.cpuUsage().user - before < 5_000_000)
})

test('the time to find a mistake in every key of a map is linear', () => {
  const keys = Array.from({ length: 30_000 }, (_, at) => `  k${at}: 1\n`)
  using folder = temporaryFolder({ 'a.yaml': group('a', `spec:\n${keys.join('')}`) })
  const { findings } = checkManifests(readManifests([folder.path]))
  assert.is(findings.length, 30_000)
  const { line, pointer } = findings[29_999] as ManifestFinding
  assert.is(line, 6 + Number(pointer?.slice('/spec/k'.length)))
})

test('the time to find a mistake in every item of a list is linear', () => {
  const issuers = '- {issuerUrl: 7}\n'.repeat(10_000)
  const spec = `groupRef: {name: a}\n  incomingAuth: {type: anonymous}\n  authServerConfig:\n    trustedIssuers:\n${issuers.replaceAll(/^/gm, '    ')}`
  using folder = temporaryFolder({
    'a.yaml': `apiVersion: portico.dev/v1beta1\nkind: VirtualMCPServer\nmetadata: {name: v}\nspec:\n  ${spec}`,
  })
  const before = process.cpuUsage().user
  const { findings } = checkManifests(readManifests([folder.path]))
  assert.ok(
    findings.filter(({ pointer }) => pointer?.endsWith('/issuerUrl')).length === 10_000,
    String(findings.length),
  )
  // Comparing each item with the mistakes of all items takes ten seconds.
  assert.ok(process.cpuUsage().user - before < 5_000_000)
})

test('messages stay short, however many mistakes there are and however long names are', () => {
  const long = 'x'.repeat(1_000_000)
  using folder = temporaryFolder({
    'errors.yaml': '"\\q" : a\n'.repeat(1000),
    'kind.yaml': `apiVersion: portico.dev/v1beta1\nkind: ${long}\n`,
    'name.yaml': group(long),
    'twice.yaml': 'a: 1\n'.repeat(1000),
  })
  const { findings } = readManifests([folder.path])
  assert.ok(findings.length > 3 && findings.length <= 2 * 20 + 2, `${findings.length}`)
  assert.ok(JSON.stringify(findings).length < 20_000)
})

test('a finding never shows a Secret value', () => {
  using folder = temporaryFolder({
    'a.yaml':
      'apiVersion: v1\nkind: Secret\nmetadata: {name: a}\ndata:\n  key: hunter2hunter2!\nstringData:\n  pin: 778899\n',
  })
  const { findings } = readManifests([folder.path])
  assert.is(findings.length, 2)
  assert.not.match(JSON.stringify(findings), /hunter2|778899/)
})

test('Secrets and ConfigMaps hold their bytes; stringData wins over data', () => {
  using folder = temporaryFolder({
    'a.yaml':
      'apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: prod}\ndata: {a: YQ==, b: Yg==}\nstringData: {b: other}\n---\n' +
      'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: text}\nbinaryData: {b: /w==}\n',
  })
  const { secrets, configMaps, findings } = readManifests([folder.path])
  assert.equal(findings, [])
  assert.equal(
    [secrets[0]?.namespace, String(secrets[0]?.values.get('a')), String(secrets[0]?.values.get('b'))],
    ['prod', 'a', 'other'],
  )
  assert.equal(configMaps[0]?.values.get('b'), Buffer.from([0xff]))
})

test('the group is that of all objects', () => {
  using folder = temporaryFolder({ 'a.yaml': group('a').replace('portico.dev', 'mcp.example.com') })
  const set = readManifests([folder.path])
  assert.equal([set.group, set.findings.length, set.manifests.length], ['mcp.example.com', 0, 1])
})

test('of manifests of two groups the rarer is reported; a chosen group ignores the others', () => {
  const mixed = `${group('a')}---\n${group('b')}---\n${group('c').replace('portico.dev', 'mcp.example.com')}`
  using folder = temporaryFolder({ 'a.yaml': mixed })
  const set = readManifests([folder.path])
  assert.is(set.group, 'portico.dev')
  assert.equal(listFindings(set.findings, folder.path), ['a.yaml:13 error GroupsDiffer /apiVersion'])
  const chosen = readManifests([folder.path], 'mcp.example.com')
  assert.equal(listNames(chosen), ['MCPGroup default/c'])
  assert.equal(listFindings(chosen.findings, folder.path), [
    'a.yaml:1 note Ignored /apiVersion',
    'a.yaml:7 note Ignored /apiVersion',
  ])
})

test('fields that kubectl get adds are ignored in a file', () => {
  using folder = temporaryFolder({
    'a.yaml': `apiVersion: portico.dev/v1beta1\nkind: MCPGroup\nmetadata:\n  name: a\n  uid: u\n  generation: 7\n  labels: {x: z}\nspec: {}\nstatus: {phase: Ready}\n`,
  })
  const [manifest] = readManifests([folder.path]).manifests
  assert.equal(manifest?.object, {
    apiVersion: 'portico.dev/v1beta1',
    kind: 'MCPGroup',
    metadata: { name: 'a', namespace: 'default', labels: { x: 'z' } },
    spec: {},
  })
})

test('missing paths, empty folders and files that are no text are findings', () => {
  using folder = temporaryFolder({ 'readme.md': '' })
  const none = readManifests([folder.path, join(folder.path, 'nowhere')])
  assert.equal(
    none.findings.map(({ reason }) => reason),
    ['FileMissing'],
  )
  assert.equal(
    readManifests([folder.path]).findings.map(({ reason }) => reason),
    ['FolderEmpty'],
  )
})

test('a file that is too large is not read', () => {
  using folder = temporaryFolder({ 'a.yaml': '#'.repeat(16 * 1024 * 1024 + 1) })
  const { findings } = readManifests([folder.path])
  assert.equal(listFindings(findings, folder.path), ['a.yaml:1 error FileUnreadable'])
  assert.match(findings[0]?.message ?? '', 'at most 16777216 are read')
})

test.run()
