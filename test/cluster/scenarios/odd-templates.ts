/** Pod templates, and other parts of pods that are copied as they are, that a real API server refuses. */

import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { type Manifest, manifest } from '../support/manifests.ts'
import { newStage } from '../support/stage.ts'

const stage = newStage()

const server = (name: string, spec: object = {}): Manifest =>
  manifest('MCPServer', name, { image: 'everything:1', transport: 'streamable-http', ...spec })
const template = (spec: object, metadata: object = {}) => ({ podTemplateSpec: { metadata, spec } })

/** The error, and the field that the condition names. */
const odd: Readonly<Record<string, readonly [object, string]>> = {
  'text-for-a-number': [template({ terminationGracePeriodSeconds: 'soon' }), 'terminationGracePeriodSeconds'],
  'number-for-a-text': [template({}, { labels: { tier: 5 } }), 'tier'],
  'misspelt-inside': [template({ securityContext: { runAsUsr: 1 } }), 'runAsUsr'],
  'list-for-an-object': [template({ affinity: [] }), 'affinity'],
  'twice-in-a-list': [
    template({ tolerations: [{ key: 'a' }, { key: 'a' }], hostAliases: [{ ip: 'x' }] }),
    'hostAliases',
  ],
  'label-of-two-words': [template({}, { labels: { team: 'a b' } }), 'labels'],
  'no-restart': [template({ restartPolicy: 'Never' }), 'restartPolicy'],
  'more-asked-than-allowed': [{ resources: { requests: { cpu: '2' }, limits: { cpu: '1' } } }, 'requests'],
  'half-a-device': [{ resources: { limits: { 'vendor.example/gpu': '1.5' } } }, 'must be an integer'],
  'name-of-a-variable': [{ env: [{ name: 'A=B', value: '1' }] }, 'env'],
  'annotation-of-a-service': [
    { resourceOverrides: { proxyService: { annotations: { 'two words': 'x' } } } },
    'two words',
  ],
}

test.before(() => stage.start())
test.after(() => stage.stop())

test('a template that the API server refuses is a condition that names the field', async () => {
  stage.apply(...Object.entries(odd).map(([name, [spec]]) => server(name, spec)))
  for (const [name, [, field]] of Object.entries(odd)) {
    const condition = await stage.waitForCondition(
      'MCPServer',
      name,
      'Ready',
      /^False (ChildRefused|InvalidPodTemplateSpec): /,
    )
    assert.ok(condition.includes(field), `${name}: ${condition}`)
    const { status } = await stage.get('MCPServer', name)
    assert.is(status.observedGeneration, 1)
  }
})

test('each workload with a corrected template is served', async () => {
  stage.apply(...Object.keys(odd).map((name) => server(name)))
  for (const name of Object.keys(odd)) {
    await stage.waitForCondition('MCPServer', name, 'Ready', 'False Progressing')
    await stage.until('Deployment', `${name}-mcp`)
  }
})

test('pods that already run are kept when the template becomes invalid', async () => {
  const { spec } = await stage.get('Deployment', 'misspelt-inside-mcp')
  stage.apply(server('misspelt-inside', odd['misspelt-inside']?.[0]))
  await stage.waitForCondition('MCPServer', 'misspelt-inside', 'Ready', 'False ChildRefused')
  assert.equal((await stage.get('Deployment', 'misspelt-inside-mcp')).spec, spec)
})

test.run()
