/** Pod templates of an MCPServer that the API server refuses, by its message, and similar ones that it accepts. */
const mcp = (container: object) => ({ spec: { containers: [{ name: 'mcp', ...container }] } })
const helper = (container: object, spec: object = {}) => ({
  spec: { containers: [{ name: 'helper', image: 'helper:1', ...container }], ...spec },
})
const tmp = { name: 'tmp', mountPath: '/a' }

export const refusedTemplates: readonly (readonly [string, object])[] = [
  [
    'A occurs twice',
    helper({
      env: [
        { name: 'A', value: '1' },
        { name: 'A', value: '2' },
      ],
    }),
  ],
  ['must be quoted', mcp({ env: [{ name: 'A', value: 5 }] })],
  ['must be quoted', mcp({ args: ['--port', 8080] })],
  [
    'leave one of them out',
    mcp({ env: [{ name: 'A', value: '1', valueFrom: { fieldRef: { fieldPath: 'metadata.name' } } }] }),
  ],
  ['exactly one source', mcp({ env: [{ name: 'A', valueFrom: {} }] })],
  ['not a valid name of a variable', mcp({ env: [{ name: 'A=B', value: '1' }] })],
  ['the pod has no volume "data"', mcp({ volumeMounts: [{ name: 'data', mountPath: '/data' }] })],
  ['/a occurs twice', helper({ volumeMounts: [tmp, tmp] })],
  ['not a valid mount path', mcp({ volumeMounts: [{ name: 'tmp', mountPath: '' }] })],
  ['within the volume', mcp({ volumeMounts: [{ ...tmp, subPath: '../b' }] })],
  ['subPathExpr', mcp({ volumeMounts: [{ ...tmp, subPath: 'b', subPathExpr: 'c' }] })],
  ['exactly one source', { spec: { volumes: [{ name: 'v', emptyDir: {}, configMap: { name: 'c' } }] } }],
  ['not a valid name of a volume', { spec: { volumes: [{ name: 'V_1', emptyDir: {} }] } }],
  ['not a number from 1 to 65535', mcp({ ports: [{ containerPort: 70_000 }] })],
  ['not a valid name of a port', mcp({ ports: [{ containerPort: 9090, name: 'much-too-long-a-name' }] })],
  [
    'occurs twice',
    helper({
      ports: [
        { containerPort: 1, name: 'a' },
        { containerPort: 2, name: 'a' },
      ],
    }),
  ],
  ['not one of TCP', mcp({ ports: [{ containerPort: 9090, protocol: 'tcp' }] })],
  ['exactly one of', mcp({ livenessProbe: { periodSeconds: 5 } })],
  ['exactly one of', mcp({ livenessProbe: { exec: { command: ['a'] }, tcpSocket: { port: 1 } } })],
  ['must be 1', mcp({ livenessProbe: { successThreshold: 2, tcpSocket: { port: 1 } } })],
  ['neither a number', mcp({ readinessProbe: { httpGet: { port: 0 } } })],
  ['not HTTP or HTTPS', mcp({ readinessProbe: { httpGet: { port: 1, scheme: 'https' } } })],
  ['sleeps 60 seconds', mcp({ lifecycle: { preStop: { sleep: { seconds: 60 } } } })],
  ['not one of Always', mcp({ imagePullPolicy: 'always' })],
  ['not a valid name of a container', helper({ name: 'Helper_1' })],
  ['mcp occurs twice', { spec: { initContainers: [{ name: 'mcp', image: 'a:1' }] } }],
  [
    'only with restartPolicy',
    { spec: { initContainers: [{ name: 'i', image: 'a:1', readinessProbe: { tcpSocket: { port: 1 } } }] } },
  ],
  ['needs allowPrivilegeEscalation', mcp({ securityContext: { privileged: true } })],
  ['must be Always', { spec: { restartPolicy: 'OnFailure' } }],
  ['only for Jobs', { spec: { activeDeadlineSeconds: 5 } }],
  ['not one of ClusterFirst', { spec: { dnsPolicy: 'clusterFirst' } }],
  ['not a valid host name', { spec: { hostname: 'A_b' } }],
  ['must be quoted', { spec: { nodeSelector: { gpu: true } } }],
  ['not a valid value of a label', { spec: { nodeSelector: { gpu: 'a b' } } }],
  ['must be quoted', { metadata: { annotations: { a: 5 } } }],
  ['not a qualified name', { metadata: { annotations: { 'a b': 'c' } } }],
  ['not a valid value of a label', { metadata: { labels: { a: 'b c' } } }],
  ['Exists does not take', { spec: { tolerations: [{ key: 'a', operator: 'Exists', value: 'b' }] } }],
  ['needs a key', { spec: { tolerations: [{ operator: 'Equal', value: 'b' }] } }],
  ['not one of NoSchedule', { spec: { tolerations: [{ key: 'a', value: 'b', effect: 'noSchedule' }] } }],
  ['needs effect NoExecute', { spec: { tolerations: [{ key: 'a', value: 'b', tolerationSeconds: 5 }] } }],
  [
    '1.2.3.4 occurs twice',
    {
      spec: {
        hostAliases: [
          { ip: '1.2.3.4', hostnames: ['a'] },
          { ip: '1.2.3.4', hostnames: ['b'] },
        ],
      },
    },
  ],
]

export const takenTemplates: readonly object[] = [
  helper({
    env: [
      { name: 'A', value: '1' },
      { name: 'a-b.c', value: '' },
      { name: 'B', valueFrom: { fieldRef: { fieldPath: 'metadata.name' } } },
    ],
  }),
  mcp({ args: ['--port', '8080'], volumeMounts: [{ ...tmp, subPath: 'b/..c' }] }),
  {
    spec: {
      volumes: [{ name: 'data', persistentVolumeClaim: { claimName: 'a' } }],
      containers: [{ name: 'mcp', volumeMounts: [{ name: 'data', mountPath: '/data' }] }],
    },
  },
  mcp({
    ports: [
      { containerPort: 9090, name: 'metrics' },
      { containerPort: 9091, protocol: 'UDP' },
    ],
  }),
  mcp({
    livenessProbe: { tcpSocket: { port: 'server' } },
    readinessProbe: { httpGet: { port: 8080, path: '/' }, successThreshold: 2 },
  }),
  mcp({ lifecycle: { preStop: { sleep: { seconds: 20 } }, postStart: { exec: { command: ['a'] } } } }),
  mcp({ imagePullPolicy: 'Never', terminationMessagePolicy: 'FallbackToLogsOnError' }),
  {
    spec: {
      initContainers: [
        { name: 'i', image: 'a:1', restartPolicy: 'Always', readinessProbe: { tcpSocket: { port: 1 } } },
      ],
    },
  },
  {
    spec: {
      nodeSelector: { gpu: 'true', 'a.example/b': '' },
      hostname: 'a',
      dnsPolicy: 'None',
      dnsConfig: { nameservers: ['1.2.3.4'] },
    },
  },
  { metadata: { annotations: { 'a.example/b': 'any text' }, labels: { a: 'B.c_d' } } },
  {
    spec: {
      tolerations: [
        { operator: 'Exists' },
        { key: 'a', value: 'b', effect: 'NoExecute', tolerationSeconds: 5 },
        { key: 'a', value: 'b' },
      ],
    },
  },
]
