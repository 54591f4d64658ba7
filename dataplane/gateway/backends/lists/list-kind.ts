/** What a server lists. */
export type ListKind = 'tools' | 'prompts' | 'resources' | 'templates'
/** The lists besides that of tools. */
export type ItemKind = Exclude<ListKind, 'tools'>
export const ITEM_KINDS = ['prompts', 'resources', 'templates'] as const satisfies readonly ItemKind[]

export interface ListForm {
  readonly method: string
  /** Of the result. */
  readonly member: string
  /** That promises it. */
  readonly capability: 'tools' | 'prompts' | 'resources'
  /** Member of an item that identifies it. */
  readonly key: string
}

export const listForms: Readonly<Record<ListKind, ListForm>> = {
  tools: { method: 'tools/list', member: 'tools', capability: 'tools', key: 'name' },
  prompts: { method: 'prompts/list', member: 'prompts', capability: 'prompts', key: 'name' },
  resources: { method: 'resources/list', member: 'resources', capability: 'resources', key: 'uri' },
  templates: {
    method: 'resources/templates/list',
    member: 'resourceTemplates',
    capability: 'resources',
    key: 'uriTemplate',
  },
}

export const TOOLS_CHANGED = 'notifications/tools/list_changed'
const LIST_CHANGED: ReadonlySet<unknown> = new Set([
  TOOLS_CHANGED,
  'notifications/prompts/list_changed',
  'notifications/resources/list_changed',
])

/** Whether a message of this method, which may be any JSON value, says that a list has changed. */
export const isListChanged = (method: unknown): boolean => LIST_CHANGED.has(method)
