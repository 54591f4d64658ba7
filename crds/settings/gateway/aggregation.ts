import { limits } from '../limits.ts'
import { objectRef } from '../references.ts'
import {
  choice,
  defaulted,
  flag,
  list,
  map,
  object,
  objectName,
  type Reader,
  type Static,
  Type,
  text,
} from '../schema.ts'
import { TOOL_PREFIX } from './defaults.ts'

export const toolAnnotations = (readBy: Reader) =>
  object('Hints that replace those of the backend.', {
    title: Type.Optional(text(readBy, 'Title shown to people.', { max: limits.text })),
    readOnlyHint: Type.Optional(flag(readBy, 'The tool changes nothing.')),
    destructiveHint: Type.Optional(flag(readBy, 'The tool may destroy something.')),
    idempotentHint: Type.Optional(flag(readBy, 'A second call with the same arguments changes nothing more.')),
    openWorldHint: Type.Optional(flag(readBy, 'The tool reaches beyond a closed set of things.')),
  })

const toolOverride = (readBy: Reader) =>
  object('Replacements of the name, description or hints of a tool.', {
    name: Type.Optional(text(readBy, 'Name shown to clients, before conflicts are resolved.', { min: 1, max: 128 })),
    description: Type.Optional(text(readBy, 'Description shown to clients.', { max: limits.prose })),
    annotations: Type.Optional(toolAnnotations(readBy)),
  })

export const toolOverrides = (readBy: Reader) =>
  map('Replacements, keyed by the name that the backend gives the tool.', toolOverride(readBy), { max: limits.tools })

export const toolNames = (readBy: Reader) =>
  list('Names of the tools that are shown, after overrides. Absent: all.', text(readBy, 'A tool name.', { max: 128 }), {
    max: limits.tools,
    type: 'set',
  })

const conflictResolutionConfig = object('Settings of the conflict resolution.', {
  prefixFormat: Type.Optional(
    text('gateway', 'Prefix of every name under `prefix`; `{workload}` is the backend’s name.', {
      max: 64,
      default: TOOL_PREFIX,
    }),
  ),
  priorityOrder: Type.Optional(
    list('Backends, most important first, under `priority`.', objectName('gateway', 'A backend’s name.'), {
      type: 'atomic',
    }),
  ),
})

/** The settings that combine all tools: `config.aggregation` of a VirtualMCPServer, `aggregation` of a file. */
export const aggregation = object(
  'How the tools of all backends become one set.',
  {
    conflictResolution: defaulted(
      choice(
        'gateway',
        'What happens when two backends have a tool of the same name.',
        ['prefix', 'priority', 'manual'],
        { default: 'prefix' },
      ),
    ),
    conflictResolutionConfig: Type.Optional(conflictResolutionConfig),
    defaultToolVisibility: defaulted(
      choice('gateway', 'Whether the tools of a backend that `tools` does not name are shown.', ['allow', 'deny'], {
        default: 'allow',
      }),
    ),
    excludeAllTools: Type.Optional(flag('gateway', 'Show no backend’s tools.', { default: false })),
    skills: Type.Optional(
      list(
        'Skills that are shown, by backend.',
        object('A backend.', {
          workload: objectName('gateway', 'Name of the backend.'),
          filter: Type.Optional(
            list('Names of the skills that are shown. Absent: all.', text('gateway', 'A skill name.', { max: 64 }), {
              max: limits.tools,
              type: 'set',
            }),
          ),
          excludeAll: Type.Optional(flag('gateway', 'Show none of this backend’s skills.', { default: false })),
        }),
        { type: { map: ['workload'] } },
      ),
    ),
    tools: Type.Optional(
      list(
        'Tools that are shown, by backend.',
        object('A backend.', {
          workload: objectName('gateway', 'Name of the backend.'),
          filter: Type.Optional(toolNames('gateway')),
          overrides: Type.Optional(toolOverrides('gateway')),
          excludeAll: Type.Optional(flag('gateway', 'Show none of this backend’s tools.', { default: false })),
          toolConfigRef: Type.Optional(objectRef('gateway', 'MCPToolConfig', 'Shared filter and overrides.')),
        }),
        { type: { map: ['workload'] } },
      ),
    ),
  },
  {
    rules: [
      {
        rule: "self.conflictResolution != 'priority' || (has(self.conflictResolutionConfig) && has(self.conflictResolutionConfig.priorityOrder) && size(self.conflictResolutionConfig.priorityOrder) > 0)",
        message: 'conflictResolution priority needs conflictResolutionConfig.priorityOrder',
      },
    ],
  },
)

export type ToolOverride = Static<ReturnType<typeof toolOverride>>
