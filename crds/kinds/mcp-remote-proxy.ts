import { age, defineKind, type ObjectOf, phase, ready, reason, url as urlColumn } from '../define.ts'
import { headerForward } from '../settings/headers.ts'
import { resources } from '../settings/pod/pod.ts'
import { proxyRules, proxySettings } from '../settings/pod/workload.ts'
import { protocolEra } from '../settings/protocol-era.ts'
import { caBundleRef } from '../settings/references.ts'
import { choice, defaulted, flag, object, Type, url } from '../settings/schema.ts'
import { statusText, workloadStatus } from '../settings/status.ts'

export const mcpRemoteProxy = defineKind({
  kind: 'MCPRemoteProxy',
  plural: 'mcpremoteproxies',
  shortNames: ['mcprp'],
  description: 'A proxy in front of an MCP server that runs elsewhere.',
  role: 'workload',
  columns: [phase, { name: 'Remote URL', type: 'string', jsonPath: '.spec.remoteUrl' }, urlColumn, ready, reason, age],
  spec: object(
    'The remote server and its proxy.',
    {
      remoteUrl: url('proxy', 'MCP endpoint of the remote server.'),
      transport: defaulted(
        choice('proxy', 'Transport of the remote server.', ['sse', 'streamable-http'], {
          default: 'streamable-http',
        }),
      ),
      protocolEra: protocolEra('proxy'),
      allowPrivateEndpoint: defaulted(
        flag('proxy', 'The remote server may be at a private address.', { default: false }),
      ),
      caBundleRef: Type.Optional(caBundleRef('proxy', 'CA bundle for the remote server.')),
      headerForward: Type.Optional(headerForward('proxy')),
      resources: resources('Resources of the proxy’s container.'),
      ...proxySettings,
    },
    { rules: proxyRules },
  ),
  status: workloadStatus({
    externalUrl: Type.Optional(statusText('Address outside the cluster, if an HTTPRoute gives one.')),
  }),
})

export type MCPRemoteProxy = ObjectOf<typeof mcpRemoteProxy>
