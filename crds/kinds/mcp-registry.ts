import { age, defineKind, type ObjectOf, phase, ready, reason, url } from '../define.ts'
import { limits } from '../settings/limits.ts'
import { podSettings, resourceOverrides, resources } from '../settings/pod/pod.ts'
import { serviceRules } from '../settings/pod/service.ts'
import { secretKeyRef } from '../settings/references.ts'
import { registryConfig, registryConfigNames } from '../settings/registry/registry-config.ts'
import { list, object, objectName, raw, Type, text } from '../settings/schema.ts'
import { count, oneOf, statusText, time, workloadStatus } from '../settings/status.ts'

const anyField = registryConfigNames.map((name) => `has(self.${name})`).join(' || ')

export const mcpRegistry = defineKind({
  kind: 'MCPRegistry',
  plural: 'mcpregistries',
  shortNames: ['mcpreg'],
  description: 'A registry server: a catalog of MCP servers and skills.',
  role: 'workload',
  columns: [
    phase,
    url,
    ready,
    {
      name: 'Synced',
      type: 'string',
      jsonPath: '.status.conditions[?(@.type=="SourcesSynced")].status',
      description: 'Whether all sources are synced.',
    },
    { name: 'Display Name', type: 'string', jsonPath: '.spec.displayName', priority: 1 },
    reason,
    age,
  ],
  spec: object(
    'The registry server: its configuration as fields, or as `configYAML`.',
    {
      displayName: Type.Optional(text('operator', 'Name shown to people.', { max: limits.name })),
      configYAML: Type.Optional(
        text('registry', 'The configuration file of the registry, instead of the fields.', {
          min: 1,
          max: limits.file,
        }),
      ),
      ...registryConfig.properties,
      storage: Type.Optional(
        object('Volume of the store. Absent: in the pod, and published entries are lost with it.', {
          claimName: objectName('operator', 'A PersistentVolumeClaim of this namespace.'),
        }),
      ),
      resources: resources('Resources of the registry’s container.'),
      resourceOverrides,
      ...podSettings,
      volumes: Type.Optional(
        list('Volumes of the pod.', raw('operator', 'A Kubernetes volume, of any type but `hostPath`.')),
      ),
      volumeMounts: Type.Optional(
        list('Mounts of the registry’s container.', raw('operator', 'A Kubernetes volume mount.')),
      ),
      pgpassSecretRef: Type.Optional(secretKeyRef('registry', 'A pgpass file with the database’s password.')),
    },
    {
      rules: [
        ...serviceRules,
        {
          rule: `has(self.configYAML) != (${anyField})`,
          message: `set either configYAML or the configuration's fields (${registryConfigNames.join(', ')})`,
        },
        {
          rule: '!has(self.storage) || !has(self.database)',
          message: 'storage is for the store in the pod: set storage or database',
        },
        {
          rule: 'has(self.configYAML) || (has(self.sources) && has(self.registries) && has(self.auth))',
          message: 'without configYAML, sources, registries and auth are needed',
        },
        {
          rule: '!has(self.sources) || !has(self.registries) || self.registries.all(registry, registry.sources.all(name, self.sources.exists(source, source.name == name)))',
          message: 'a registry names a source that does not exist',
        },
      ],
    },
  ),
  status: workloadStatus({
    sources: Type.Optional(
      list(
        'State of the sources, by name.',
        object('A source.', {
          name: statusText('Name of the source.', { min: 1, max: limits.label }),
          state: oneOf('State of its syncs.', ['Waiting', 'Synced', 'Failed']),
          servers: count('Number of names of servers that it has.'),
          skills: count('Number of names of skills that it has.'),
          leftOut: count('Number of entries that were left out; the registry’s `/status` names them.'),
          error: Type.Optional(
            object('Why the last sync failed. The entries of the last good one stay.', {
              code: statusText('For programs.', { min: 1 }),
              message: statusText('For people.'),
            }),
          ),
          lastTransitionTime: time('When its state last changed.'),
        }),
        { max: limits.statusNames },
      ),
    ),
    sourceCount: Type.Optional(count('Number of sources, if not all of them are listed.')),
  }),
})

export type MCPRegistry = ObjectOf<typeof mcpRegistry>
