import { age, defineKind, type ObjectOf, phase, ready, reason, url } from '../define.ts'
import { limits } from '../settings/limits.ts'
import { args, backendReplicas, env, port, resources } from '../settings/pod/pod.ts'
import { proxyRules, proxySettings } from '../settings/pod/workload.ts'
import { protocolEra } from '../settings/protocol-era.ts'
import { objectRef } from '../settings/references.ts'
import { choice, defaulted, flag, list, object, objectName, Type, text } from '../settings/schema.ts'
import { workloadStatus } from '../settings/status.ts'

const HOST_PATH = {
  refused: 'hostPath volumes are not supported; use podTemplateSpec with another kind of volume',
} as const

const secrets = list(
  'Environment variables of the MCP server whose values are in Secrets.',
  object('A variable.', {
    name: objectName('operator', 'Name of the Secret.', { refersTo: 'Secret' }),
    key: text('operator', 'Key in the Secret.', { min: 1, max: limits.name }),
    targetEnvName: Type.Optional(
      text('operator', 'Name of the variable. Absent: the key.', { min: 1, max: limits.name }),
    ),
  }),
  // Two keys of one Secret are two variables.
  { type: { map: ['name', 'key'] } },
)

const volumes = list(
  'Directories of the node.',
  object('A directory.', {
    name: text(HOST_PATH, 'Name of the volume.', { min: 1, max: limits.label }),
    hostPath: text(HOST_PATH, 'Path on the node.', { min: 1 }),
    mountPath: text(HOST_PATH, 'Path in the container.', { min: 1 }),
    readOnly: defaulted(flag(HOST_PATH, 'Mount it read-only.', { default: false })),
  }),
  { type: { map: ['name'] } },
)

const permissionProfile = object('Limits of the outbound traffic of the server’s pods.', {
  type: defaulted(choice('operator', 'Kind of profile.', ['builtin', 'configmap'], { default: 'builtin' })),
  name: objectName('operator', 'Builtin profile (`none`, `network`) or name of the ConfigMap.', {
    refersTo: 'ConfigMap',
  }),
  key: Type.Optional(text('operator', 'Key in the ConfigMap.', { min: 1, max: limits.name })),
})

export const mcpServer = defineKind({
  kind: 'MCPServer',
  plural: 'mcpservers',
  shortNames: ['mcpserver'],
  description: 'An MCP server that runs as a container, behind a proxy in the same pod.',
  role: 'workload',
  columns: [phase, ready, { name: 'Replicas', type: 'integer', jsonPath: '.status.readyReplicas' }, url, reason, age],
  spec: object(
    'The server and its proxy.',
    {
      image: text('operator', 'Image of the MCP server.', { min: 1 }),
      transport: defaulted(
        choice('proxy', 'Transport of the server.', ['stdio', 'streamable-http', 'sse'], {
          default: 'stdio',
        }),
      ),
      protocolEra: protocolEra('proxy'),
      proxyMode: defaulted(
        choice('proxy', 'Transport between clients and the proxy of a stdio server.', ['sse', 'streamable-http'], {
          default: 'streamable-http',
          refusedValues: { sse: 'the HTTP+SSE transport is deprecated; clients use streamable-http' },
        }),
      ),
      mcpPort: Type.Optional(port('Port on which the server listens; 8080 when left out.')),
      args,
      env,
      secrets: Type.Optional(secrets),
      resources: resources('Resources of the MCP server’s container.'),
      proxyResources: resources('Resources of the proxy’s container.'),
      backendReplicas,
      permissionProfile: Type.Optional(permissionProfile),
      volumes: Type.Optional(volumes),
      webhookConfigRef: Type.Optional(
        objectRef({ refused: 'webhooks are not supported' }, 'MCPWebhookConfig', 'Webhooks around calls.'),
      ),
      ...proxySettings,
    },
    {
      rules: [
        ...proxyRules,
        {
          rule: "self.transport != 'stdio' || !has(self.mcpPort)",
          message: 'mcpPort is for transport streamable-http or sse: a stdio server listens on no port',
        },
        {
          rule: '!has(self.replicas) || !has(self.backendReplicas) || self.replicas == self.backendReplicas',
          message: 'backendReplicas must equal replicas: the server shares the pod of its proxy',
        },
      ],
    },
  ),
  status: workloadStatus({
    imagePinned: Type.Optional(
      Type.Boolean({ description: 'Whether the image is named by its digest: a tag may mean another image tomorrow.' }),
    ),
  }),
})

export type MCPServer = ObjectOf<typeof mcpServer>
