/** The causes that the operator reports for rollouts. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { KubernetesObject } from '../../../../operator/model/view.ts'
import { dropContents } from '../../../../operator/runtime/children/child-cache.ts'
import { Rollouts } from '../../../../operator/runtime/report/rollouts.ts'

const OURS = 'portico:2'

interface Pod {
  readonly image?: string
  readonly proxy?: string
  readonly secret?: string
  readonly mounts?: number
  /** A stand-in for the hash of the rendered pod template. */
  readonly hash?: string
}

/** Builds a Deployment. Without `hash` it is unchanged since it was rendered. */
function deployment(pod: Pod): KubernetesObject {
  const { image = 'server:1', proxy = OURS, secret, mounts = 1, hash = JSON.stringify(pod) } = pod
  const annotations = {
    'portico.dev/template-hash': hash,
    ...(secret !== undefined && { 'portico.dev/secret-revision': secret }),
  }
  return {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: {
      name: 'it-mcp',
      namespace: 'team',
      ownerReferences: [
        { apiVersion: 'portico.dev/v1beta1', kind: 'MCPServer', name: 'it', uid: '1', controller: true },
      ],
    },
    spec: {
      template: {
        metadata: { annotations },
        spec: {
          containers: [{ name: 'mcp', image, volumeMounts: Array.from({ length: mounts }) }],
          initContainers: [{ name: 'portico', image: proxy }],
        },
      },
    },
  }
}

interface Case {
  readonly before: Pod
  readonly after: Pod
  readonly observed?: number
  readonly isKnown?: boolean
  /** The object that the API server stored, if it differs. */
  readonly written?: Pod
}

/**
 * Returns the counted causes, both for a current child that somebody may have edited and for one that nobody can have
 * edited.
 */
function listCauses(change: Case): readonly string[] {
  const causes = causesWhere(change, true)
  if (change.before.hash === undefined) assert.equal(causesWhere(change, false), causes)
  return causes
}

function causesWhere(
  { before, after, observed = 2, isKnown = true, written = after }: Case,
  mayBeEdited: boolean,
): readonly string[] {
  const owner = {
    apiVersion: 'portico.dev/v1beta1',
    kind: 'MCPServer',
    metadata: { name: 'it', namespace: 'team', generation: 2 },
    status: { observedGeneration: observed },
  }
  const rollouts = new Rollouts({ group: 'portico.dev', image: OURS, findOwner: () => owner })
  const live = deployment(before)
  if (!mayBeEdited) dropContents(live)
  rollouts.written({ rendered: deployment(after), live, written: deployment(written), isKnown, mayBeEdited })
  return rollouts
    .readings()
    .flatMap(({ labels, value }) => (value === 0 ? [] : [`${labels['kind']} ${labels['cause']}`]))
}

const cases: Readonly<Record<string, Case>> = {
  image: { before: {}, after: { image: 'server:2' } },
  operator: { before: { proxy: 'portico:1' }, after: {} },
  secret: { before: { secret: 'a' }, after: { secret: 'b' } },
  spec: { before: {}, after: { mounts: 2 }, observed: 1 },
  reference: { before: {}, after: { mounts: 2 } },
  edit: { before: { image: 'evil', hash: '{}' }, after: {} },
}
for (const [cause, change] of Object.entries(cases)) {
  test(`a rollout is counted once, by its cause: ${cause}`, () => {
    assert.equal(listCauses(change), [`MCPServer ${cause}`])
  })
}

test('a difference from the rendering of an earlier process counts under operator', () => {
  assert.equal(listCauses({ before: {}, after: { mounts: 2 }, isKnown: false }), ['MCPServer operator'])
})

test('a new image of a server wins over causes that change with it', () => {
  const change = { before: { proxy: 'portico:1', secret: 'a' }, after: { image: 'server:2', secret: 'b' }, observed: 1 }
  assert.equal(listCauses(change), ['MCPServer image'])
})

test('a write that leaves the pod template unchanged is no rollout', () => {
  assert.equal(listCauses({ before: { mounts: 2 }, after: {}, written: { mounts: 2 } }), [])
})

test('every series exists before anything is counted', () => {
  const rollouts = new Rollouts({ group: 'portico.dev', image: OURS, findOwner: () => undefined })
  const found = rollouts.readings().map(({ labels }) => `${labels['kind']} ${labels['cause']}`)
  assert.is(found.length, 4 * 6)
  assert.is(new Set(found).size, found.length)
})

test.run()
