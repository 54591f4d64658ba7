/** What a server lists. */
export type ListKind = 'tools' | 'prompts' | 'resources' | 'templates'

export interface ListForm {
  readonly method: string
  /** Of the result. */
  readonly member: string
  /** That promises it. */
  readonly capability: 'tools' | 'prompts' | 'resources'
  /** Member of an item that tells it from others. */
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

/** Which lists a notification says have changed; undefined where it says nothing of the kind. */
export const changedBy: Readonly<Record<string, readonly ListKind[] | undefined>> = {
  'notifications/tools/list_changed': ['tools'],
  'notifications/prompts/list_changed': ['prompts'],
  'notifications/resources/list_changed': ['resources', 'templates'],
}
