/** Checks which changes roll the pods, which only reload their configuration, and which do neither. */

import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { canonicalJson } from '../../../operator/render/object/canonical.ts'
import type { LiveObject } from '../../support/operator/live-object.ts'
import { configText, findChild, plansOfText } from '../../support/operator/plans.ts'

const world = (spec: string, more = '') => `kind: MCPServer
metadata: {name: it}
spec: {image: x, transport: streamable-http, ${spec}}
---
kind: MCPToolConfig
metadata: {name: short}
spec: {toolsFilter: [a]}
---
kind: MCPGroup
metadata: {name: tools}
spec: {}
${more}`

function planRestart(spec: string, more?: string) {
  const plan = plansOfText(world(spec, more)).get('MCPServer/it')
  const { template } = findChild(plan, 'Deployment')['spec'] as {
    template: { metadata: { annotations: Record<string, string> } }
  }
  return {
    pods: canonicalJson(template),
    hash: template.metadata.annotations['portico.dev/template-hash'],
    config: configText(plan),
  }
}

const secret = (value: string) => `---\nkind: Secret\nmetadata: {name: s}\nstringData: {k: ${value}}`

test('a change of the configuration alone leaves the pods as they are', () => {
  const before = planRestart('')
  const after = planRestart('toolConfigRef: {name: short}')
  assert.is.not(after.config, before.config)
  assert.is(after.pods, before.pods)
})

test('scaling and joining a group change neither', () => {
  const before = planRestart('')
  assert.equal(planRestart('replicas: 3'), before)
  assert.equal(planRestart('groupRef: {name: tools}'), before)
})

test('image, arguments, environment, resources and mounts change the pods and their hash', () => {
  const before = planRestart('')
  for (const spec of [
    'args: [a]',
    'env: [{name: A, value: b}]',
    'resources: {limits: {memory: 1Gi}}',
    'proxyResources: {limits: {memory: 1Gi}}',
    'mcpPort: 9000',
    'serviceAccount: me',
    'podTemplateSpec: {spec: {nodeSelector: {a: b}}}',
  ]) {
    const after = planRestart(spec)
    assert.is.not(after.hash, before.hash, spec)
  }
})

test('a changed Secret rolls the pods whose environment holds it', () => {
  const spec = 'secrets: [{name: s, key: k}]'
  assert.is.not(planRestart(spec, secret('one')).hash, planRestart(spec, secret('two')).hash)
})

test('the configuration holds references to Secrets, never a value', () => {
  const text = `kind: MCPRemoteProxy
metadata: {name: it}
spec:
  remoteUrl: https://example.com/mcp
  headerForward: {addHeadersFromSecret: [{headerName: x, valueSecretRef: {name: s, key: k}}]}
${secret('very-secret-value')}`
  const plan = plansOfText(text).get('MCPRemoteProxy/it')
  assert.match(configText(plan), '../secrets/s/k')
  assert.not.match(canonicalJson(plan), 'very-secret-value')
})

test('only the used keys of a Secret are mounted, as files and never by subPath', () => {
  const text = `kind: MCPRemoteProxy
metadata: {name: it}
spec:
  remoteUrl: https://example.com/mcp
  headerForward:
    addHeadersFromSecret:
      - {headerName: x, valueSecretRef: {name: long.name.with.dots, key: k}}
      - {headerName: y, valueSecretRef: {name: long.name.with.dots, key: j}}
---
kind: Secret
metadata: {name: long.name.with.dots}
stringData: {k: a, j: b, unused: c}`
  const plan = plansOfText(text).get('MCPRemoteProxy/it')
  const { template } = findChild(plan, 'Deployment')['spec'] as {
    template: { spec: { volumes: { name: string; secret?: object }[]; containers: { volumeMounts: object[] }[] } }
  }
  const volume = template.spec.volumes.find((candidate) => candidate.secret)
  assert.match(volume?.name ?? '', /^portico-secret-[0-9a-f]{16}$/)
  assert.equal(volume?.secret, {
    secretName: 'long.name.with.dots',
    defaultMode: 0o440,
    items: [
      { key: 'j', path: 'j' },
      { key: 'k', path: 'k' },
    ],
  })
  assert.not.match(canonicalJson(template), 'subPath')
})

const CA = '{configMapRef: {name: ca, key: ca.crt, optional: true}}'
const optionalCas = `kind: MCPRemoteProxy
metadata: {name: it}
spec: {remoteUrl: https://example.com/mcp, caBundleRef: ${CA}, oidcConfigRef: {name: idp, audience: a}, telemetryConfigRef: {name: otel}}
---
kind: MCPOIDCConfig
metadata: {name: idp}
spec: {type: inline, inline: {issuer: https://idp.example.com, caBundleRef: ${CA}}}
---
kind: MCPTelemetryConfig
metadata: {name: otel}
spec: {openTelemetry: {enabled: true, endpoint: https://otel.example, caBundleRef: ${CA}}}
---
kind: MCPGroup
metadata: {name: tools}
spec: {}
---
kind: MCPServerEntry
metadata: {name: entry}
spec: {groupRef: {name: tools}, remoteUrl: https://entry.example/mcp, transport: streamable-http, caBundleRef: ${CA}}
---
kind: VirtualMCPServer
metadata: {name: it}
spec: {groupRef: {name: tools}, incomingAuth: {type: anonymous}}
---
kind: MCPRegistry
metadata: {name: it}
spec:
  sources: [{name: s, managed: {}}]
  registries: [{name: r, sources: [s]}]
  auth: {mode: oauth, oauth: {providers: [{name: i, issuerUrl: https://i.example.org, audience: a, caBundleRef: ${CA}}]}}
`

test('an optional CA bundle is an optional volume, and its creation or deletion changes only the configuration', () => {
  const absent = plansOfText(optionalCas)
  const present = plansOfText(
    `${optionalCas}---\nkind: ConfigMap\nmetadata: {name: ca}\ndata: {ca.crt: "-----BEGIN CERTIFICATE-----"}\n`,
  )
  for (const workload of ['MCPRemoteProxy/it', 'VirtualMCPServer/it', 'MCPRegistry/it']) {
    const [before, after] = [absent.get(workload), present.get(workload)]
    assert.not.match(configText(before), '/ca/ca/', workload)
    assert.match(configText(after), '/ca/ca/ca.crt', workload)
    const pods = findChild(before, 'Deployment')
    assert.equal(pods, findChild(after, 'Deployment'), workload)
    const { volumes } = (pods as unknown as LiveObject).spec.template.spec
    const optional = { name: 'ca', defaultMode: 288, items: [{ key: 'ca.crt', path: 'ca.crt' }], optional: true }
    assert.equal(volumes.find(({ name }) => name === 'portico-ca-ca')?.configMap, optional, workload)
  }
})

test('a required CA bundle is not an optional volume', () => {
  const needed = optionalCas.replace(
    'caBundleRef: {configMapRef: {name: ca, key: ca.crt, optional: true}}, oidc',
    'caBundleRef: {configMapRef: {name: ca, key: ca.crt}}, oidc',
  )
  const plans = plansOfText(
    `${needed}---\nkind: ConfigMap\nmetadata: {name: ca}\ndata: {ca.crt: "-----BEGIN CERTIFICATE-----"}\n`,
  )
  const { volumes } = (findChild(plans.get('MCPRemoteProxy/it'), 'Deployment') as unknown as LiveObject).spec.template
    .spec
  assert.is(volumes.find(({ name }) => name === 'portico-ca-ca')?.configMap.optional, undefined)
})

test.run()
