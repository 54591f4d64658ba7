/** Checks that our ports, containers and volumes keep working if a user's pod template uses the same names. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { stringify } from 'yaml'
import { condition, findChild, plansOfText } from '../../../support/operator/plans.ts'

const SPECS = {
  MCPServer: { image: 'server:1', transport: 'streamable-http' },
  MCPRemoteProxy: { remoteUrl: 'https://mcp.example/mcp' },
  VirtualMCPServer: { groupRef: { name: 'tools' }, incomingAuth: { type: 'anonymous' } },
  MCPRegistry: { sources: [{ name: 'own', managed: {} }], registries: [{ name: 'all', sources: ['own'] }] },
} as const
type Kind = keyof typeof SPECS

function buildPlan(kind: Kind, pod: object, more: object = {}) {
  const object = (of: string, name: string, spec: object) =>
    stringify({ apiVersion: 'portico.dev/v1beta1', kind: of, metadata: { name, namespace: 'default' }, spec })
  const spec = { ...SPECS[kind], ...more, podTemplateSpec: { spec: pod } }
  return plansOfText([object('MCPGroup', 'tools', {}), object(kind, 'one', spec)].join('---\n')).get(`${kind}/one`)
}

interface PodSpec {
  readonly containers: readonly { name: string; ports: object[]; volumeMounts: object[] }[]
  readonly initContainers: PodSpec['containers']
  readonly volumes: readonly { name: string }[]
}
const readPod = (plan: ReturnType<typeof buildPlan>, child = 'Deployment') =>
  (findChild(plan, child)['spec'] as { template: { spec: PodSpec } }).template.spec

/**
 * Pod templates with the port names of public manifests of the widely used operator, and the port that the Service
 * targets.
 */
const CORPUS: readonly (readonly [Kind, object, object, warns: boolean])[] = [
  [
    'MCPServer',
    { containers: [{ name: 'mcp', ports: [{ name: 'mcp', containerPort: 8086 }] }] },
    { mcpPort: 8086 },
    true,
  ],
  ['MCPServer', { containers: [{ name: 'mcp', ports: [{ containerPort: 3000, name: 'mcp' }] }] }, {}, true],
  ['MCPServer', { containers: [{ name: 'mcp', ports: [{ name: 'http', containerPort: 8080 }] }] }, {}, false],
  [
    'MCPServer',
    {
      containers: [
        { name: 'mcp', resources: { limits: { memory: '512Mi' } } },
        { name: 'cache', image: 'cache:1', ports: [{ name: 'mcp', containerPort: 6379, protocol: 'TCP' }] },
      ],
    },
    { transport: 'stdio' },
    true,
  ],
  [
    'MCPServer',
    {
      initContainers: [
        { name: 'agent', image: 'a:1', restartPolicy: 'Always', ports: [{ name: 'admin', containerPort: 1 }] },
      ],
    },
    {},
    true,
  ],
  ['MCPServer', { containers: [{ name: 'mcp', ports: [{ containerPort: 9090, name: 'server' }] }] }, {}, false],
  [
    'VirtualMCPServer',
    { containers: [{ name: 'log', image: 'log:1', ports: [{ name: 'admin', containerPort: 9 }] }] },
    {},
    true,
  ],
  [
    'MCPRemoteProxy',
    { containers: [{ name: 'log', image: 'log:1', ports: [{ name: 'mcp', containerPort: 9 }] }] },
    {},
    true,
  ],
  [
    'MCPRegistry',
    { containers: [{ name: 'log', image: 'log:1', ports: [{ name: 'http', containerPort: 9 }] }] },
    {},
    true,
  ],
  [
    'MCPRegistry',
    { containers: [{ name: 'log', image: 'log:1', ports: [{ name: 'mcp', containerPort: 9 }] }] },
    {},
    false,
  ],
]

const NUMBERS = { MCPServer: 14_483, MCPRemoteProxy: 4483, VirtualMCPServer: 4483, MCPRegistry: 8080 }

for (const [kind, pod, more, warns] of CORPUS)
  test(`${kind} with ${JSON.stringify(pod)}: the Service leads to our port by its number`, () => {
    const plan = buildPlan(kind, pod, more)
    const { ports } = findChild(plan, 'Service')['spec'] as { ports: { targetPort: unknown }[] }
    assert.equal(
      ports.map(({ targetPort }) => targetPort),
      [NUMBERS[kind]],
    )
    assert.is(
      condition(plan, 'PortNameTaken')?.startsWith('True PortNameTaken: /spec/podTemplateSpec/spec/'),
      warns || undefined,
    )
    assert.match(condition(plan, 'PodTemplateValid') ?? '', /^True/)
    for (const { ports: all = [] } of readPod(
      plan,
      (more as { transport?: string }).transport ? 'StatefulSet' : 'Deployment',
    ).containers) {
      const names = (all as { name?: string }[]).flatMap(({ name }) => name ?? [])
      assert.is(new Set(names).size, names.length, 'a name is there once in a container')
    }
  })

test('our own container keeps the port that its probes name', () => {
  const ports = [{ containerPort: 14_081, name: 'http' }]
  const plan = buildPlan('MCPServer', { initContainers: [{ name: 'portico', ports }] })
  assert.match(condition(plan, 'Ready') ?? '', /^False InvalidPodTemplateSpec: .* has no port "admin"/)
  assert.is(plan?.children, 'hold')
})

test('a number that the data plane listens on is refused, in whatever container, and as TCP alone', () => {
  const port = (containerPort: number, more: object = {}) => ({ ports: [{ containerPort, ...more }] })
  const refused: readonly (readonly [Kind, object])[] = [
    ['MCPServer', { containers: [{ name: 'mcp', ...port(14_483) }] }],
    ['MCPServer', { containers: [{ name: 'mcp', ...port(14_081, { name: 'mcp' }) }] }],
    ['MCPServer', { initContainers: [{ name: 'more', image: 'm:1', ...port(14_483, { protocol: 'TCP' }) }] }],
    ['VirtualMCPServer', { containers: [{ name: 'more', image: 'm:1', ...port(8081) }] }],
    ['MCPRemoteProxy', { containers: [{ name: 'more', image: 'm:1', ...port(4483) }] }],
    ['MCPRegistry', { containers: [{ name: 'more', image: 'm:1', ...port(8080) }] }],
    // The probes of our own container and the operator's status requests use these port names.
    ['MCPServer', { initContainers: [{ name: 'portico', ...port(9000, { name: 'admin' }) }] }],
    ['VirtualMCPServer', { containers: [{ name: 'vmcp', ...port(4483, { protocol: 'UDP' }) }] }],
  ]
  for (const [kind, pod] of refused) {
    const plan = buildPlan(kind, pod)
    assert.match(
      condition(plan, 'Ready') ?? '',
      /^False PortNameTaken: \/spec\/podTemplateSpec\/spec\//,
      JSON.stringify(pod),
    )
    assert.is(plan?.children, 'hold')
  }
  for (const [kind, pod] of [
    ['MCPServer', { containers: [{ name: 'mcp', ...port(14_483, { protocol: 'UDP' }) }] }],
    ['MCPServer', { containers: [{ name: 'mcp', ...port(4483) }] }],
    ['VirtualMCPServer', { containers: [{ name: 'vmcp', ...port(4483, { name: 'mcp' }) }] }],
    ['VirtualMCPServer', { containers: [{ name: 'vmcp', ...port(9000, { name: 'more' }) }] }],
  ] as const)
    assert.not.match(condition(buildPlan(kind, pod), 'Ready') ?? '', /PortNameTaken/, JSON.stringify(pod))
})

test('a user’s volume with the name of one of ours keeps its source, and ours is renamed', () => {
  const claim = { persistentVolumeClaim: { claimName: 'scratch' } }
  const taken = readPod(buildPlan('MCPServer', { volumes: [{ name: 'tmp', ...claim }] }))
  assert.equal(
    taken.volumes.filter(({ name }) => name.endsWith('tmp')),
    [
      { name: 'portico-tmp', emptyDir: {} },
      { name: 'tmp', ...claim },
    ],
  )
  assert.equal(taken.containers[0]?.volumeMounts, [{ name: 'portico-tmp', mountPath: '/tmp' }])
  const pod = readPod(buildPlan('MCPServer', { volumes: [{ name: 'tmp', emptyDir: { sizeLimit: '1Gi' } }] }))
  assert.equal(pod.volumes.at(-1), { name: 'tmp', emptyDir: { sizeLimit: '1Gi' } })
  const replaced = readPod(buildPlan('MCPServer', { volumes: [{ name: 'tmp', emptyDir: null, ...claim }] }))
  assert.equal(replaced.volumes.at(-1), { name: 'tmp', ...claim })
})

test('a template can’t change volumes and mounts of the data plane', () => {
  for (const pod of [
    { volumes: [{ name: 'portico-config', configMap: { name: 'other' } }] },
    {
      volumes: [{ name: 'x', emptyDir: {} }],
      initContainers: [{ name: 'portico', volumeMounts: [{ name: 'x', mountPath: '/etc/portico/config' }] }],
    },
  ])
    assert.match(
      condition(buildPlan('MCPServer', pod), 'Ready') ?? '',
      /^False InvalidPodTemplateSpec: \/spec\/podTemplateSpec/,
    )
})

test.run()
