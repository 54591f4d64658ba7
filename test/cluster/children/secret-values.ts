/** Pods roll if values that they use change, not for other keys or metadata of a Secret or an operator's restart. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { newCluster } from '../support/cluster.ts'
import { manifest } from '../support/manifests.ts'
import { eventually, SYSTEM } from '../support/operator-process.ts'

const cluster = newCluster()
const { apply } = cluster

const NAMES = ['one', 'two'] as const
const REVISION = 'portico.dev/secret-revision'

const server = (name: string) =>
  manifest('MCPServer', name, {
    image: 'server:1',
    transport: 'streamable-http',
    secrets: [{ name: 'shared', key: name, targetEnvName: 'TOKEN' }],
  })
const secret = (values: object, metadata: object = {}) =>
  apply({
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name: 'shared', namespace: 'default', ...metadata },
    stringData: values,
  })

interface Rollout {
  readonly generation: number
  readonly revision: string
}
function readRollout(name: string): Rollout {
  const { metadata, spec } = cluster.read('Deployment', `${name}-mcp`)
  return { generation: metadata.generation, revision: spec.template.metadata.annotations[REVISION] ?? '' }
}
/** Waits until a server has a new revision, and returns it. */
const waitForRollout = (name: string, { revision }: Rollout) =>
  eventually(() => {
    const now = readRollout(name)
    return now.revision !== revision && now
  }, `${name} is rolled`)

test.before(() => cluster.start())
test.after(() => cluster.stop())

test('only the servers that use a value are rolled when it changes', async () => {
  secret({ one: 'a', two: 'b', other: 'c' })
  apply(...NAMES.map(server))
  const [one, two] = await eventually(() => {
    const found = NAMES.map(readRollout) as [Rollout, Rollout]
    return found.every(({ revision }) => revision !== '') && found
  }, 'both run')
  secret({ one: 'a', two: 'b', other: 'd' }, { labels: { team: 'x' }, annotations: { 'example.com/note': '1' } })
  secret({ one: 'a', two: 'b', more: 'e' })
  secret({ one: 'changed', two: 'b' })
  assert.is((await waitForRollout('one', one)).generation, one.generation + 1, 'for the value alone')
  assert.equal(readRollout('two'), two)
})

test('a restart of the operator rolls nothing, even if metadata changed meanwhile', async () => {
  const [one, two] = NAMES.map(readRollout) as [Rollout, Rollout]
  await cluster.operator.stop()
  cluster.mergePatch('secret', 'shared', { metadata: { annotations: { 'example.com/note': 'while-it-was-down' } } })
  await cluster.startOperator()
  secret({ one: 'changed', two: 'again' })
  assert.is((await waitForRollout('two', two)).generation, two.generation + 1, 'for the value alone')
  assert.equal(readRollout('one'), one)
})

test('revisions are keyed by a Secret of the operator, and equal values have different revisions in different places', async () => {
  const { data } = cluster.read('Secret', 'portico-operator-revisions', SYSTEM)
  assert.is(Buffer.from(data['key'] ?? '', 'base64').length, 32)
  const [one, two] = NAMES.map(readRollout) as [Rollout, Rollout]
  secret({ one: 'same', two: 'same' })
  await waitForRollout('one', one)
  await waitForRollout('two', two)
  assert.is.not(readRollout('one').revision, readRollout('two').revision)
})

test('a Secret that is recreated with the same value, or becomes immutable, rolls nothing', async () => {
  const [one, two] = NAMES.map(readRollout) as [Rollout, Rollout]
  const reason = () => cluster.condition('MCPServer', 'one', 'Ready')?.reason
  cluster.remove('secret', 'shared')
  await eventually(() => reason() === 'SecretNotFound', 'the Secret is missing')
  secret({ one: 'same', two: 'same' })
  await eventually(() => reason() !== 'SecretNotFound', 'the Secret is back')
  cluster.mergePatch('secret', 'shared', { immutable: true })
  // After a change that does roll the pods, the operator has seen everything before it.
  cluster.remove('secret', 'shared')
  secret({ one: 'same', two: 'changed' })
  assert.is((await waitForRollout('two', two)).generation, two.generation + 1, 'for the value alone')
  assert.equal(readRollout('one'), one)
})

test.run()
