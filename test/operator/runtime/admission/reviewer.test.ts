/** Checks the answers to reviews, whatever they contain. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { fillWorld } from '../../../../operator/model/index.ts'
import { isOfInstallation } from '../../../../operator/render/object/object.ts'
import { Reviewer } from '../../../../operator/runtime/admission/reviewer.ts'
import { Checks } from '../../../../operator/runtime/checks/checks.ts'
import { recordLog } from '../../../support/kept-log.ts'
import { addDefaults, context, worldContent } from '../../../support/operator/plans.ts'

const world = fillWorld(
  worldContent(`
kind: MCPGroup
metadata: {name: tools}
---
kind: MCPOIDCConfig
metadata: {name: idp}
spec: {type: inline, inline: {issuer: "https://idp.example"}}
---
kind: MCPServer
metadata: {name: mail}
spec: {image: "a:1", transport: streamable-http, oidcConfigRef: {name: idp, audience: mail}}
---
kind: MCPServer
metadata: {name: files}
spec: {image: "a:1", transport: streamable-http, groupRef: {name: tools}}
`),
)
const before = JSON.stringify(world.view.all())

function reviewer(more: object = {}) {
  const { log, lines } = recordLog()
  const counted: (readonly [kind: string, outcome: string])[] = []
  const options = {
    view: world.view,
    contents: new Map(),
    checks: new Checks({ log }),
    context,
    namespaces: [],
    isSynced: () => true,
    isManaged: isOfInstallation('portico.dev', undefined),
    onReviewed: (...one: readonly [string, string]) => void counted.push(one),
    log,
  }
  return { reviewer: new Reviewer({ ...options, ...more }), lines, counted }
}

const object = (kind: string, name: string, spec: object, metadata: object = {}) => ({
  apiVersion: 'portico.dev/v1beta1',
  kind,
  metadata: { name, namespace: 'default', ...metadata },
  spec,
})
const server = (spec: object, metadata: object = {}) =>
  addDefaults(object('MCPServer', 'crm', { image: 'a:1', transport: 'streamable-http', ...spec }, metadata))
const review = (request: object) => ({
  apiVersion: 'admission.k8s.io/v1',
  kind: 'AdmissionReview',
  request: { uid: '705ab4f5', operation: 'CREATE', ...request },
})

/** Returns the warnings of one review; the review must allow the object. */
async function warnings(request: object, more: object = {}): Promise<readonly string[]> {
  const answer = await reviewer(more).reviewer.review(review(request))
  const { warnings: found = [], ...response } = answer?.response ?? {}
  assert.equal(response, { uid: '705ab4f5', allowed: true })
  assert.is(JSON.stringify(world.view.all()), before, 'nothing is written')
  return found
}

const missing = server({ oidcConfigRef: { name: 'corp', audience: 'crm' } })

test('a warning names the missing object and the consequence', async () => {
  assert.equal(await warnings({ object: missing }), [
    'MCPServer "crm": MCPOIDCConfig "corp" is missing',
    'MCPServer "crm" takes effect once that is there',
  ])
  assert.equal(await warnings({ object: server({ oidcConfigRef: { name: 'idp', audience: 'crm' } }) }), [])
})

test('an object is reviewed as it will be, not as it is', async () => {
  const mail = (name: string) => server({ oidcConfigRef: { name, audience: 'mail' } }, { name: 'mail' })
  const update = { operation: 'UPDATE', oldObject: mail('idp') }
  assert.equal(await warnings({ ...update, object: mail('idp') }), [])
  assert.is((await warnings({ ...update, object: mail('gone') })).length, 2)
  const gateway = addDefaults(
    object('VirtualMCPServer', 'front', {
      groupRef: { name: 'tools' },
      incomingAuth: { type: 'anonymous' },
    }),
  )
  assert.equal(await warnings({ object: gateway }), [])
})

test('a deletion warns about users of the object; an object under deletion is not reviewed', async () => {
  const idp = object('MCPOIDCConfig', 'idp', { type: 'inline', inline: { issuer: 'https://idp.example' } })
  assert.equal(await warnings({ operation: 'DELETE', oldObject: idp, object: null }), [
    'MCPOIDCConfig "idp": still used by MCPServer "mail"',
    'MCPOIDCConfig "idp" is deleted when no object refers to it any more',
  ])
  assert.equal(await warnings({ operation: 'DELETE', oldObject: missing, object: null }), [])
  const going = { ...missing, metadata: { ...missing.metadata, deletionTimestamp: '2026-11-24T12:00:00Z' } }
  assert.equal(await warnings({ operation: 'UPDATE', object: going, oldObject: going }), [])
})

test('there are no warnings about objects of another installation', async () => {
  const labelled = { ...missing, metadata: { ...missing.metadata, labels: { 'portico.dev/installation': 'blue' } } }
  assert.equal(await warnings({ object: labelled }), [])
  const blue = { isManaged: isOfInstallation('portico.dev', 'blue') }
  assert.ok((await warnings({ object: labelled }, blue)).length > 0)
  assert.equal(await warnings({ object: missing }, blue), [])
})

test('only objects are counted, by kind and outcome of the review', async () => {
  const countReads = async (request: object, more: object = {}) => {
    const { reviewer: some, counted } = reviewer(more)
    await some.review(review(request))
    return counted
  }
  assert.equal(await countReads({ object: missing }), [['MCPServer', 'warned']])
  assert.equal(await countReads({ object: server({}) }), [['MCPServer', 'clean']])
  assert.equal(await countReads({ object: missing }, { isSynced: () => false }), [['MCPServer', 'unready']])
  assert.equal(await countReads({ object: object('MCPServer', 'odd', [] as never) }), [])
  assert.equal(await countReads({ object: { ...missing, kind: 'Pod' } }), [])
  const failing = { contents: { get: () => undefined }, view: undefined }
  assert.equal(await countReads({ object: missing }, failing), [['MCPServer', 'failed']])
})

test('an object that appears before the second check is not missing', async () => {
  const late = fillWorld(worldContent('kind: MCPGroup\nmetadata: {name: tools}'))
  const { reviewer: some } = reviewer({ view: late.view })
  const answer = some.review(review({ object: missing }))
  for (const config of worldContent(`
kind: MCPOIDCConfig
metadata: {name: corp}
spec: {type: inline, inline: {issuer: "https://idp.example"}}
`).objects)
    late.objects.put(config)
  assert.equal((await answer)?.response, { uid: '705ab4f5', allowed: true })
})

test('there are no warnings about unmanaged objects, nor before the first sync', async () => {
  for (const [request, more] of [
    [{ object: missing }, { isSynced: () => false }],
    [{ object: missing }, { namespaces: ['team-a'] }],
    [{ object: missing, operation: 'CONNECT' }, {}],
    [{ object: { ...missing, kind: 'Pod' } }, {}],
    [{ object: { ...missing, kind: 'constructor' } }, {}],
    [{ object: { ...missing, apiVersion: 'portico.dev/v1alpha1' } }, {}],
    [{ object: { ...missing, apiVersion: 'elsewhere.dev/v1beta1' } }, {}],
  ] as const)
    assert.equal(await warnings(request, more), [])
})

const junk = [null, true, 0, 1e308, '', 'text', [], [[]], {}, { name: 1 }, { metadata: null }]

test('any JSON is handled: every review admits the object, anything else gets no answer', async () => {
  const { reviewer: some } = reviewer()
  for (const one of junk) {
    assert.is(await some.review(one), undefined)
    assert.is(await some.review({ ...review({}), request: one }), undefined)
    for (const field of ['apiVersion', 'kind']) assert.is(await some.review({ ...review({}), [field]: one }), undefined)
    if (one !== 'text') assert.is(await some.review(review({ uid: one })), undefined)
    assert.equal(await warnings({ operation: one, object: missing }), [])
    assert.equal(await warnings({ object: one }), [])
    assert.equal(await warnings({ operation: 'DELETE', oldObject: one }), [])
    for (const field of ['apiVersion', 'kind', 'metadata'])
      assert.equal(await warnings({ object: { ...missing, [field]: one } }), [])
  }
  assert.is(await some.review(review({ uid: 'x'.repeat(129) })), undefined)
})

test('a spec that no schema has seen costs at most its own warnings, and one line of the log', async () => {
  const { reviewer: some, lines } = reviewer()
  const deep = JSON.parse(`${'['.repeat(100_000)}${']'.repeat(100_000)}`)
  for (const kind of [
    'MCPServer',
    'MCPRemoteProxy',
    'VirtualMCPServer',
    'MCPRegistry',
    'MCPOIDCConfig',
    'MCPToolConfig',
  ])
    for (const value of [...junk, deep])
      for (const spec of [
        value,
        {
          image: value,
          config: value,
          groupRef: value,
          type: value,
          inline: value,
          oidcConfigRef: value,
          podTemplateSpec: value,
        },
      ]) {
        const answer = await some.review(review({ object: object(kind, 'odd', spec as object) }))
        assert.is(answer?.response.allowed, true)
      }
  const failures = lines.map(({ kind, err }) => `${kind} ${(err as { message: string }).message}`)
  assert.ok(failures.length > 0, 'some objects make reconcile throw')
  assert.is(new Set(failures).size, failures.length, 'each once')
})

test('warnings are few, short and printable, and contain no key of a URL', async () => {
  const secrets = Array.from({ length: 500 }, (_, index) => ({
    name: `${'\u{1F511}'.repeat(80)}${index}`,
    key: 'k',
    targetEnvName: `K${index}`,
  }))
  const many = await warnings({ object: server({ secrets }) })
  assert.ok(many.length <= 14)
  assert.match(many.at(-2) ?? '', /^and 4\d\d more$/)
  assert.ok(Buffer.byteLength(many.join('')) <= 4096)
  assert.ok(many.every((text) => [...text].length <= 256 && text.isWellFormed()))

  const [odd = ''] = await warnings({ object: server({ groupRef: { name: 'a\n\u001b[31m\u202e\ud800b\u0000' } }) })
  assert.not.match(odd, /[\p{Cc}\p{Cf}]/u)
  assert.ok(odd.isWellFormed())
  const long = await warnings({ object: server({}, { name: 'n'.repeat(1_000_000) }) })
  assert.ok(long.every((text) => [...text].length <= 256))

  const url = 'http://user:hunter2@169.254.169.254/mcp?api_key=hunter3'
  const keyed = addDefaults(object('MCPRemoteProxy', 'keyed', { remoteUrl: url }))
  const texts = await warnings({ object: keyed })
  assert.ok(texts.length > 0)
  assert.not.match(texts.join(' '), 'hunter')
})

test.run()
