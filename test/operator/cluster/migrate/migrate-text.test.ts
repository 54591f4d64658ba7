import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { migrateText } from '../../../../operator/cluster/migrate.ts'

const OTHER = 'mcp.example.org'
const to = { from: OTHER, to: 'portico.dev' }
const back = { from: 'portico.dev', to: OTHER }
const listFindings = (text: string) =>
  migrateText(text, to).findings.map(({ severity, line, message }) => `${line} ${severity} ${message}`)

const SERVER = `# Why this one is here.
apiVersion: "mcp.example.org/v1beta1"   # the group
kind: MCPServer
metadata:
  name: everything
  annotations: {mcp.example.org/local-command: 'npx everything'}
spec:
    image:   someone/everything   # pinned elsewhere
    transport: streamable-http
    groupRef: {name: tools}
---
{"apiVersion": "mcp.example.org/v1beta1", "kind": "MCPGroup", "metadata": {"name": "tools"}, "spec": {}}
`

test('only the group changes: comments, quotes, order and spaces stay', () => {
  const { text, objects, findings } = migrateText(SERVER, to)
  assert.is(text, SERVER.replaceAll(OTHER, 'portico.dev'))
  assert.is(objects, 2)
  assert.equal(findings, [])
})

test('there and back is the same text', () => {
  assert.is(migrateText(migrateText(SERVER, to).text, back).text, SERVER)
})

test('other uses of the group change too: roles, references, items of lists', () => {
  const text = `kind: ClusterRole
apiVersion: rbac.authorization.k8s.io/v1
metadata: {name: tools}
rules:
  - {apiGroups: [mcp.example.org, apps], resources: [mcpservers], verbs: [get]}
---
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
spec: {scaleTargetRef: {apiVersion: mcp.example.org/v1alpha1, kind: MCPServer, name: a}}
---
apiVersion: v1
kind: List
items:
  - {apiVersion: mcp.example.org/v1alpha1, kind: MCPGroup, metadata: {name: g}, spec: {}}
`
  const migration = migrateText(text, to)
  assert.is(
    migration.text,
    text.replaceAll('mcp.example.org/v1alpha1', 'portico.dev/v1beta1').replace(OTHER, 'portico.dev'),
  )
  assert.equal(migration.findings, [])
  assert.is(migration.objects, 1)
})

test('a part without a counterpart is reported with its line, and stays', () => {
  const text = `apiVersion: mcp.example.org/v1beta1
kind: MCPGroup
metadata:
  name: g
  annotations:
    mcp.example.org/restarted-at: now
spec:
  colour: blue
---
apiVersion: mcp.example.org/v1beta1
kind: EmbeddingServer
metadata: {name: e}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: c}
data: {text: see mcp.example.org}
`
  assert.equal(listFindings(text), [
    '6 error mcp.example.org/restarted-at has no counterpart and is left as it is',
    '8 error /spec/colour: has no counterpart: unknown field; known here: description',
    '10 error EmbeddingServer of mcp.example.org/v1beta1 has no counterpart and is left as it is',
    '17 note names the group and is left as it is',
  ])
  assert.is(migrateText(text, to).text, text.replace(OTHER, 'portico.dev'))
})

test('definitions of kinds are left to `portico crds`', () => {
  const text = `kind: CustomResourceDefinition\nmetadata: {name: mcpservers.${OTHER}}\nspec: {group: ${OTHER}}\n`
  assert.is(migrateText(text, to).text, text)
  assert.match(listFindings(text).join(), /1 note a CustomResourceDefinition is not migrated/)
})

test('text that is not YAML, empty, or foreign stays as it is', () => {
  for (const text of [
    '',
    '# nothing\n',
    'a: [',
    'just text',
    '- 1\n- 2\n',
    'kind: Pod\napiVersion: v1\n',
    '\u0000',
    'a: &a [*a]',
  ])
    assert.is(migrateText(text, to).text, text)
  assert.match(listFindings('a: [').join(), /error is not YAML/)
})

test('a group that is written with escapes is reported', () => {
  const text = 'apiVersion: "mcp\\x2eexample.org/v1beta1"\nkind: MCPGroup\nmetadata: {name: g}\n'
  assert.is(migrateText(text, to).text, text)
  assert.match(listFindings(text).join(), /1 error .* is written in a form that is left as it is/)
})

test.run()
