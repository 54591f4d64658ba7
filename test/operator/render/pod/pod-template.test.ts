import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { mergePodTemplate, type PodTemplate } from '../../../../operator/render/pod/pod-template.ts'

const base = (): PodTemplate => ({
  metadata: { labels: { app: 'a' } },
  spec: {
    initContainers: [{ name: 'portico', image: 'portico' }],
    containers: [
      {
        name: 'mcp',
        image: 'server',
        env: [{ name: 'PORT', value: '8080' }],
        ports: [{ containerPort: 8080 }],
        volumeMounts: [{ name: 'tmp', mountPath: '/tmp' }],
        securityContext: { runAsUser: 1000, runAsNonRoot: true },
      },
    ],
    volumes: [{ name: 'tmp', emptyDir: {} }],
  },
})

const merge = (patch: object) => {
  const problems: string[] = []
  const template = mergePodTemplate(base(), patch as Record<string, unknown>, { app: 'a' }, problems)
  return { template, problems }
}

test('a template with more values than a pod has use for is refused before it is merged', () => {
  const containers = (count: number) => Array.from({ length: count }, (_, id) => ({ name: `c${id}`, image: 'x' }))
  assert.equal(merge({ spec: { containers: containers(3_000) } }).problems, [])
  const { template, problems } = merge({ spec: { containers: containers(20_000) } })
  assert.equal(problems, ['has more than 10000 values: texts, numbers, lists and objects together'])
  assert.equal(template, base())
})

test('containers merge by name, their lists by key, objects by field', () => {
  const { template, problems } = merge({
    metadata: { annotations: { team: 'x' } },
    spec: {
      nodeSelector: { disk: 'ssd' },
      containers: [
        {
          name: 'mcp',
          env: [
            { name: 'DEBUG', value: '1' },
            { name: 'PORT', value: '9' },
          ],
          securityContext: { runAsUser: 5 },
          resources: { limits: { memory: '1024Mi', cpu: 1 } },
        },
        { name: 'log', image: 'log' },
      ],
      tolerations: [{ key: 'gpu' }],
    },
  })
  assert.equal(problems, [])
  assert.equal(template, {
    metadata: { labels: { app: 'a' }, annotations: { team: 'x' } },
    spec: {
      initContainers: [{ name: 'portico', image: 'portico' }],
      containers: [
        {
          name: 'mcp',
          image: 'server',
          env: [
            { name: 'PORT', value: '9' },
            { name: 'DEBUG', value: '1' },
          ],
          ports: [{ containerPort: 8080 }],
          volumeMounts: [{ name: 'tmp', mountPath: '/tmp' }],
          securityContext: { runAsUser: 5, runAsNonRoot: true },
          resources: { limits: { memory: '1Gi', cpu: '1' } },
        },
        { name: 'log', image: 'log' },
      ],
      volumes: [{ name: 'tmp', emptyDir: {} }],
      nodeSelector: { disk: 'ssd' },
      tolerations: [{ key: 'gpu' }],
    },
  })
})

test('null takes a field away', () => {
  const { template } = merge({ spec: { containers: [{ name: 'mcp', securityContext: { runAsUser: null } }] } })
  const [container] = template.spec['containers'] as { securityContext: object }[]
  assert.equal(container?.securityContext, { runAsNonRoot: true })
})

test('a volume can get another source if its own is set to null', () => {
  const claim = { claimName: 'disk' }
  const patch = { spec: { volumes: [{ name: 'tmp', emptyDir: null, persistentVolumeClaim: claim }] } }
  const { template, problems } = merge(patch)
  assert.equal(problems, [])
  assert.equal(template.spec['volumes'], [{ name: 'tmp', persistentVolumeClaim: claim }])
})

test('a merge changes neither of its arguments', () => {
  const under = base()
  const patch = { spec: { containers: [{ name: 'mcp', resources: { limits: { memory: '1024Mi' } } }] } }
  mergePodTemplate(under, patch, {}, [])
  assert.equal(under, base())
  assert.is(patch.spec.containers[0]?.resources.limits.memory, '1024Mi')
})

const broken: readonly (readonly [string, object, string])[] = [
  ['a misspelt field', { spec: { nodeSelectr: {} } }, '/spec/nodeSelectr: the field does not exist'],
  [
    'a misspelt field of a container',
    { spec: { containers: [{ name: 'mcp', imag: 'x' }] } },
    '/spec/containers/0/imag',
  ],
  ['a field that a template has not', { status: {} }, '/status: the field does not exist'],
  ['an object for a list', { spec: { containers: { name: 'mcp' } } }, '/spec/containers: a list is expected'],
  ['a list for an object', { spec: [] }, '/spec'],
  ['a text for an object', { spec: 'x' }, '/spec: an object is expected here'],
  ['a container without a name', { spec: { containers: [{ image: 'x' }] } }, '/spec/containers/0: name is missing'],
  ['a container that is none', { spec: { containers: ['mcp'] } }, '/spec/containers/0: an object is expected here'],
  [
    'a container that is not there',
    { spec: { containers: [{ name: 'vmcp', env: [] }] } },
    '/spec/containers: container "vmcp" has no image: no container has this name; there are portico, mcp',
  ],
  [
    'a sidecar among the containers',
    { spec: { containers: [{ name: 'portico', env: [] }] } },
    '/spec/containers: container "portico" has no image: it is one of initContainers here',
  ],
  ['a patch directive', { spec: { volumes: [{ name: 'tmp', $patch: 'delete' }] } }, 'patch directives'],
  ['the label that selects the pods', { metadata: { labels: { app: 'b' } } }, '/metadata/labels/app'],
  [
    'a quantity that is none',
    { spec: { containers: [{ name: 'mcp', resources: { limits: { memory: '1 gig' } } }] } },
    'limits.memory is not a quantity',
  ],
]

test('what can’t be merged is named with its place', () => {
  for (const [what, patch, text] of broken) {
    const { problems } = merge(patch)
    assert.ok(
      problems.some((problem) => problem.includes(text)),
      `${what}: ${JSON.stringify(problems)}`,
    )
  }
})

test('a hook or probe with another handler replaces ours', () => {
  const ours = { preStop: { httpGet: { path: '/pre-stop', port: 1 } } }
  const hooked = base()
  ;(hooked.spec['containers'] as object[])[0] = {
    ...(hooked.spec['containers'] as object[])[0],
    lifecycle: ours,
    readinessProbe: { periodSeconds: 5, httpGet: { path: '/readyz', port: 1 } },
  }
  const mergeContainer = (container: object) => {
    const patch = { spec: { containers: [{ name: 'mcp', ...container }] } }
    const { spec } = mergePodTemplate(hooked, patch, {}, [])
    return (spec['containers'] as Record<string, unknown>[])[0] as Record<string, unknown>
  }
  assert.equal(mergeContainer({ lifecycle: { preStop: { exec: { command: ['a'] } } } })['lifecycle'], {
    preStop: { exec: { command: ['a'] } },
  })
  assert.equal(mergeContainer({ readinessProbe: { tcpSocket: { port: 2 } } })['readinessProbe'], {
    periodSeconds: 5,
    tcpSocket: { port: 2 },
  })
  assert.equal(mergeContainer({ readinessProbe: { periodSeconds: 9 } })['readinessProbe'], {
    periodSeconds: 9,
    httpGet: { path: '/readyz', port: 1 },
  })
  assert.equal(mergeContainer({ lifecycle: { postStart: { exec: { command: ['a'] } } } })['lifecycle'], {
    ...ours,
    postStart: { exec: { command: ['a'] } },
  })
})

test('thousands of containers without an image are found in time, up to the bound of a template', () => {
  const containers = Array.from({ length: 4_900 }, (_, index) => ({ name: `c${index}` }))
  const before = process.cpuUsage().user
  const { problems } = merge({ spec: { containers } })
  // Listing all names for each of them makes gigabytes of text.
  assert.ok(process.cpuUsage().user - before < 1_000_000, 'takes too long')
  assert.is(problems.length, 4_900)
})

test('long lists are merged in time, up to the bound of a template', () => {
  const makeMany = <T>(item: (index: number) => T) => Array.from({ length: 800 }, (_, index) => item(index))
  const before = process.cpuUsage().user
  const { template, problems } = merge({
    metadata: { labels: Object.fromEntries(makeMany((index) => [`l${index}`, 'v'])) },
    spec: {
      tolerations: makeMany((index) => ({ key: `k${index}` })),
      volumes: makeMany((index) => ({ name: `v${index}`, emptyDir: {} })),
      containers: [
        {
          name: 'mcp',
          env: makeMany((index) => ({ name: `E${index}`, value: 'v' })),
          volumeMounts: makeMany((index) => ({ name: `v${index}`, mountPath: `/v${index}` })),
        },
      ],
    },
  })
  assert.ok(process.cpuUsage().user - before < 1_000_000, 'takes too long')
  assert.equal(problems, [])
  assert.is((template.spec['volumes'] as object[]).length, 801)
})

test.run()
