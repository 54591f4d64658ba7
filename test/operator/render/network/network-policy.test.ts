import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { LiveObject } from '../../../support/operator/live-object.ts'
import { condition, findChild, plansOfText } from '../../../support/operator/plans.ts'
import { unwrap } from '../../../support/unwrap.ts'

const planPolicy = (networkPolicy: string) =>
  plansOfText(
    `kind: MCPRemoteProxy\nmetadata: {name: it}\nspec: {remoteUrl: https://example.com/mcp, networkPolicy: ${networkPolicy}}`,
  ).get('MCPRemoteProxy/it')

interface Rule {
  readonly from?: unknown
  readonly ports: readonly { readonly port: number }[]
}
const rules = (networkPolicy: string) =>
  (findChild(planPolicy(networkPolicy), 'NetworkPolicy') as unknown as { spec: { ingress: readonly Rule[] } }).spec
    .ingress

const PUBLIC = 4483

test('only the peers in ingressFrom can reach the public port', () => {
  const peers = '[{podSelector: {}}, {ipBlock: {cidr: 10.0.0.0/8, except: [10.1.0.0/16]}}]'
  const found = rules(`{ingressFrom: ${peers}}`).filter(({ ports }) => ports.some(({ port }) => port === PUBLIC))
  assert.equal(
    found.map(({ from, ports }) => ({ from, ports: ports.map(({ port }) => port) })),
    [{ from: [{ podSelector: {} }, { ipBlock: { cidr: '10.0.0.0/8', except: ['10.1.0.0/16'] } }], ports: [PUBLIC] }],
  )
})

test('without ingressFrom everybody can reach the public port', () => {
  const found = rules('{}').filter(({ ports }) => ports.some(({ port }) => port === PUBLIC))
  assert.equal(
    found.map(({ from }) => from),
    [undefined],
  )
})

/** Each kind that runs pods, in each way it runs them, with our ports in these pods. */
const WORKLOADS = [
  ['MCPServer', 'image: x, transport: streamable-http, mcpPort: 9000', [14_483, 14_081]],
  ['MCPServer', 'image: x, transport: sse', [14_483, 14_081]],
  ['MCPServer', 'image: x, transport: stdio', [14_483, 14_081]],
  ['MCPRemoteProxy', 'remoteUrl: https://example.com/mcp', [4483, 8081]],
  ['VirtualMCPServer', 'groupRef: {name: g}, incomingAuth: {type: anonymous}', [4483, 8081]],
  [
    'MCPRegistry',
    'sources: [{name: own, file: {configMapRef: {name: own, key: a}}}], registries: [{name: all, sources: [own]}], auth: {mode: anonymous}',
    [8080, 8081],
  ],
] as const
const OTHERS = `---
kind: MCPGroup
metadata: {name: g}
spec: {}
---
kind: ConfigMap
metadata: {name: own}
data: {a: '{}'}`
const OPERATOR = {
  namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'portico-system' } },
  podSelector: { matchLabels: { 'app.kubernetes.io/name': 'portico-operator' } },
}
const EDGE = { podSelector: { matchLabels: { app: 'front' } } }

for (const [kind, spec, [own, admin]] of WORKLOADS) {
  const renderChildren = (more: string) => {
    const plan = plansOfText(`kind: ${kind}\nmetadata: {name: it}\nspec: {${spec}${more}}\n${OTHERS}`).get(`${kind}/it`)
    if (plan === undefined || plan.children === 'hold') throw new Error(condition(plan, 'Valid'))
    const children = plan.children as readonly unknown[] as readonly LiveObject[]
    return { children, policies: children.filter((child) => child.kind === 'NetworkPolicy') }
  }

  test(`${kind} (${spec}): only our two ports are open, the admin port only to the operator`, () => {
    for (const [more, from] of [
      ['', undefined],
      [', networkPolicy: {ingressFrom: [{podSelector: {matchLabels: {app: front}}}]}', [EDGE]],
    ] as const) {
      const { children, policies } = renderChildren(more)
      assert.is(policies.length, 1)
      const policy = unwrap(policies[0])
      assert.equal(policy.spec.policyTypes, ['Ingress'])
      assert.equal(policy.spec.ingress, [
        { ...(from && { from }), ports: [{ protocol: 'TCP', port: own }] },
        { from: [OPERATOR], ports: [{ protocol: 'TCP', port: admin }] },
      ])
      const pods = unwrap(children.find((child) => child.spec?.template !== undefined))
      const labels = pods.spec.template.metadata.labels
      for (const [label, value] of Object.entries(policy.spec.podSelector.matchLabels)) assert.is(labels[label], value)
    }
  })

  test(`${kind} (${spec}): there is no policy if it is switched off`, () => {
    assert.equal(renderChildren(', networkPolicy: {enabled: false}').policies, [])
  })
}

const withProfile = (spec: string, profile: unknown = {}) =>
  plansOfText(
    `kind: MCPServer\nmetadata: {name: it}\nspec: {image: x, transport: streamable-http, ${spec}}\n---\nkind: ConfigMap\nmetadata: {name: p}\ndata: {k: ${JSON.stringify(JSON.stringify(profile))}}`,
  ).get('MCPServer/it')
const renderPolicy = (spec: string, profile?: unknown) => {
  const found = findChild(withProfile(spec, profile), 'NetworkPolicy') as unknown as {
    spec: { policyTypes: string[]; ingress?: object[]; egress?: object[] }
  }
  return found.spec
}
const DNS = {
  ports: [
    { protocol: 'UDP', port: 53 },
    { protocol: 'TCP', port: 53 },
  ],
}
const listed = 'permissionProfile: {type: configmap, name: p, key: k}'
const outbound = (rules: object) => ({ network: { outbound: rules } })

test('without a profile there are no egress rules', () => {
  assert.equal(renderPolicy('').policyTypes, ['Ingress'])
  assert.is(renderPolicy('').egress, undefined)
})

for (const [what, spec, profile, egress] of [
  ['the profile none', 'permissionProfile: {name: none}', {}, []],
  ['the profile network', 'permissionProfile: {name: network}', {}, [{}]],
  ['an empty profile', listed, {}, []],
  ['a profile of mode none', listed, { network: { mode: 'none', outbound: { insecure_allow_all: true } } }, []],
  ['a profile that allows all', listed, outbound({ insecure_allow_all: true, allow_port: [443] }), [{}]],
  [
    'a profile of ports',
    listed,
    outbound({ allow_port: [443, 80, 443] }),
    [
      DNS,
      {
        ports: [
          { protocol: 'TCP', port: 80 },
          { protocol: 'TCP', port: 443 },
        ],
      },
    ],
  ],
  [
    'a profile of addresses and networks',
    listed,
    outbound({ allow_host: ['192.0.2.1', '10.0.0.0/8', '2001:db8::1'], allow_port: [443] }),
    [
      DNS,
      {
        to: [
          { ipBlock: { cidr: '10.0.0.0/8' } },
          { ipBlock: { cidr: '192.0.2.1/32' } },
          { ipBlock: { cidr: '2001:db8::1/128' } },
        ],
        ports: [{ protocol: 'TCP', port: 443 }],
      },
    ],
  ],
] as const)
  test(`pods may reach ${what}`, () => {
    const policy = renderPolicy(spec, profile)
    assert.equal(policy.policyTypes, ['Ingress', 'Egress'])
    assert.equal(policy.egress, egress)
  })

test('a profile is enforced even if the policy of inbound traffic is off', () => {
  const policy = renderPolicy('permissionProfile: {name: none}, networkPolicy: {enabled: false}')
  assert.equal(policy.policyTypes, ['Egress'])
  assert.is(policy.ingress, undefined)
  const children = withProfile('networkPolicy: {enabled: false}')?.children ?? []
  assert.not.ok(children !== 'hold' && children.some(({ kind }) => kind === 'NetworkPolicy'))
})

for (const [cidr, except, good] of [
  ['10.0.0.0/8', '10.1.0.0/16', true],
  ['::/0', '2001:db8::/32', true],
  ['10.0.0.0/8', '11.0.0.0/16', false],
  ['10.0.0.0/8', '10.0.0.0/8', false],
  ['10.1.0.0/16', '10.0.0.0/8', false],
  ['10.0.0.0/8', '2001:db8::/32', false],
  ['2001:db8::/32', '10.0.0.0/8', false],
] as const)
  test(`${except} ${good ? 'may' : 'may not'} be left out of ${cidr}`, () => {
    const plan = planPolicy(`{ingressFrom: [{ipBlock: {cidr: "${cidr}", except: ["${except}"]}}]}`)
    const problem = `/spec/networkPolicy/ingressFrom/0/ipBlock/except/0 must be a part of ${cidr}`
    assert.is(condition(plan, 'Valid'), good ? 'True ConfigValid' : `False ConfigInvalid: ${problem}`)
    assert.is(plan?.children === 'hold', !good)
  })

for (const [field, at] of [
  ['networkPolicy: {ingressFrom: [{ipBlock: {cidr: "CIDR"}}]}', 'networkPolicy/ingressFrom/0/ipBlock/cidr'],
  [
    'networkPolicy: {ingressFrom: [{ipBlock: {cidr: "::/0", except: ["CIDR"]}}]}',
    'networkPolicy/ingressFrom/0/ipBlock/except/0',
  ],
  ['serviceType: LoadBalancer, service: {loadBalancerSourceRanges: ["CIDR"]}', 'service/loadBalancerSourceRanges/0'],
] as const)
  for (const [cidr, problem] of [
    ['2001:db8::/32'],
    ['2001:db8::1/128'],
    ['2001:db8::1/32', 'has bits set after its prefix of 32'],
    ['2001:db8:8000::/32', 'has bits set after its prefix of 32'],
    ['::ffff:a00:0/104', 'must not hold an IPv4 address'],
    ...(field.includes('::/0')
      ? []
      : [
          ['10.0.0.1/8', 'has bits set after its prefix of 8: write the network’s first address, or /32 for'],
          ['10.0.0.64/25', 'has bits set after its prefix of 25'],
          ['10.0.0.128/25'],
          ['0.0.0.0/0'],
        ]),
  ])
    test(`${at} ${cidr} is ${problem === undefined ? 'taken' : 'refused, as by the API server'}`, () => {
      const spec = field.replace('CIDR', cidr as string)
      const plan = plansOfText(
        `kind: MCPRemoteProxy\nmetadata: {name: it}\nspec: {remoteUrl: https://example.com/mcp, ${spec}}`,
      ).get('MCPRemoteProxy/it')
      const message = condition(plan, 'Valid')
      if (problem === undefined) assert.is(message, 'True ConfigValid')
      else assert.match(`${message}`, `False ConfigInvalid: /spec/${at} ${problem}`)
    })

test.run()
