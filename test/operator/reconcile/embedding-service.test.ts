/** Checks what is rendered for the embedding service of a gateway's tool search, and which problems are reported. */

import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { parse } from 'yaml'
import type { Plan } from '../../../operator/reconcile/index.ts'
import type { LiveObject } from '../../support/operator/live-object.ts'
import { condition, configText, findChild, plansOfText } from '../../support/operator/plans.ts'

const buildPlan = (optimizer: string, more = ''): Plan | undefined =>
  plansOfText(`
kind: MCPGroup
metadata: {name: tools}
spec: {}
---
kind: VirtualMCPServer
metadata: {name: it}
spec: {groupRef: {name: tools}, incomingAuth: {type: anonymous}, config: {optimizer: ${optimizer}}}
${more}`).get('VirtualMCPServer/it')

const readPod = (plan: Plan | undefined) => (findChild(plan, 'Deployment') as unknown as LiveObject).spec.template.spec
const readOptimizer = (plan: Plan | undefined) => parse(configText(plan)).optimizer

test('a gateway with a service has a folder for vectors, and one without has none', () => {
  const { volumes, containers } = readPod(buildPlan('{embeddingService: "http://embeddings:8080"}'))
  const [{ env, volumeMounts }] = containers
  assert.equal(volumes.at(-1), { name: 'portico-state', emptyDir: { sizeLimit: '256Mi' } })
  assert.equal(volumeMounts.at(-1), { name: 'portico-state', mountPath: '/var/lib/portico' })
  assert.equal(env, [{ name: 'PORTICO_STATE_DIR', value: '/var/lib/portico' }])
  const plain = readPod(buildPlan('{}'))
  assert.is(plain.containers[0].env, undefined)
  assert.not.match(JSON.stringify(plain), 'portico-state')
})

test('a Service of the cluster may have a private address, and other hosts only if allowed', () => {
  const isAllowed = (optimizer: string) => {
    const plan = buildPlan(optimizer)
    assert.is(condition(plan, 'Valid'), 'True ConfigValid', optimizer)
    return readOptimizer(plan).embeddingAllowPrivateIP ?? false
  }
  for (const host of ['embeddings', 'tei.models.svc', 'tei.models.svc.cluster.local', 'TEI.models.SVC'])
    assert.is(isAllowed(`{embeddingService: "http://${host}:8080"}`), true, host)
  for (const host of [
    'embeddings.example.com',
    'svc.example.com',
    '8.8.8.8',
    '[2606:4700::1111]',
    'tei.models.svc.example',
  ])
    assert.is(isAllowed(`{embeddingService: "https://${host}"}`), false, host)
  assert.is(isAllowed('{embeddingService: "https://tei.example.com", embeddingAllowPrivateIP: true}'), true)
})

test('the key is a file, and a missing one is named', () => {
  const ref = '{embeddingService: "https://tei.example.com", embeddingApiKeySecretRef: {name: keys, key: tei}}'
  assert.match(condition(buildPlan(ref), 'ReferencesResolved') ?? '', /^False .*"?keys/)
  const plan = buildPlan(ref, '---\nkind: Secret\nmetadata: {name: keys}\nstringData: {tei: x}')
  assert.is(readOptimizer(plan).embeddingApiKeyFile, '../secrets/keys/tei')
  const names = readPod(plan).volumes.map(({ name }) => name)
  assert.equal(names, ['portico-config', 'portico-secret-keys', 'portico-state'])
})

test('contradictory settings are reported with their place', () => {
  const at = '/spec/config/optimizer'
  const service = 'embeddingService: "https://tei.example.com"'
  for (const [optimizer, expected] of [
    ['embeddingModel: m', `${at}/embeddingModel needs embeddingService`],
    ['hybridSearchSemanticRatio: "0.5"', `${at}/hybridSearchSemanticRatio needs embeddingService`],
    ['semanticDistanceThreshold: "0.5"', `${at}/semanticDistanceThreshold needs embeddingService`],
    ['embeddingProvider: openai', `${at}/embeddingService is required under embeddingProvider openai`],
    [`embeddingProvider: openai, ${service}`, `${at}/embeddingModel is required under embeddingProvider openai`],
    [`${service}, hybridSearchSemanticRatio: "1.01"`, `${at}/hybridSearchSemanticRatio must be from 0 to 1`],
    [`${service}, semanticDistanceThreshold: "3"`, `${at}/semanticDistanceThreshold must be from 0 to 2`],
    [`${service}, embeddingServiceTimeout: 0s`, `${at}/embeddingServiceTimeout must be at least 1ms`],
    ['embeddingService: "https://user:pass@tei.example.com"', `${at}/embeddingService must hold no credentials`],
    ['embeddingService: "http://10.0.0.1"', 'called only under embeddingAllowPrivateIP'],
    ['embeddingService: "http://169.254.169.254"', 'never called'],
    [
      `embeddingProvider: openai, embeddingModel: m, ${service}, embeddingHeaders: {Host: a}`,
      `${at}/embeddingHeaders/Host this header is set by the gateway itself`,
    ],
  ] as const) {
    const message = condition(buildPlan(`{${optimizer}}`), 'Valid') ?? ''
    assert.match(message, 'False ConfigInvalid', optimizer)
    assert.match(message, expected)
    assert.not.match(message, 'pass@')
  }
})

test.run()
