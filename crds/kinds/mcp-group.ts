import { age, defineKind, type ObjectOf, ready } from '../define.ts'
import { limits } from '../settings/limits.ts'
import { list, object, Type, text } from '../settings/schema.ts'
import { count, oneOf, status, statusText } from '../settings/status.ts'

const names = (description: string) =>
  Type.Optional(list(description, statusText('A name.', { max: limits.name }), { max: limits.statusNames }))

export const mcpGroup = defineKind({
  kind: 'MCPGroup',
  plural: 'mcpgroups',
  shortNames: ['mcpg'],
  description: 'A group of MCP servers. Its members are the objects that name it in groupRef.',
  role: 'group',
  columns: [
    { name: 'Servers', type: 'integer', jsonPath: '.status.serverCount' },
    { name: 'Proxies', type: 'integer', jsonPath: '.status.remoteProxyCount' },
    { name: 'Entries', type: 'integer', jsonPath: '.status.entryCount' },
    ready,
    age,
  ],
  spec: object('The group.', {
    description: Type.Optional(text('operator', 'Purpose of the group, for people.', { max: limits.prose })),
  }),
  status: status({
    phase: Type.Optional(oneOf('Short summary of the conditions.', ['Pending', 'Ready', 'Failed'])),
    servers: names('MCPServers of the group.'),
    serverCount: Type.Optional(count('Number of MCPServers.')),
    remoteProxies: names('MCPRemoteProxies of the group.'),
    remoteProxyCount: Type.Optional(count('Number of MCPRemoteProxies.')),
    entries: names('MCPServerEntries of the group.'),
    entryCount: Type.Optional(count('Number of MCPServerEntries.')),
  }),
})

export type MCPGroup = ObjectOf<typeof mcpGroup>
