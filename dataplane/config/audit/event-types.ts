/**
 * Names of audit events. They are stable: a name is never reused, and filters of the widely used operator contain those
 * of MCP. docs/audit.md explains each.
 */

/** The methods of MCP, keyed by the name of their audit event. */
export const METHOD_EVENTS = {
  initialize: 'mcp_initialize',
  'server/discover': 'mcp_discover',
  ping: 'mcp_ping',
  'tools/call': 'mcp_tool_call',
  'tools/list': 'mcp_tools_list',
  'prompts/get': 'mcp_prompt_get',
  'prompts/list': 'mcp_prompts_list',
  'resources/read': 'mcp_resource_read',
  'resources/list': 'mcp_resources_list',
  'resources/templates/list': 'mcp_resource_templates_list',
  'resources/subscribe': 'mcp_resource_subscribe',
  'resources/unsubscribe': 'mcp_resource_unsubscribe',
  'completion/complete': 'mcp_completion',
  'logging/setLevel': 'mcp_logging',
  'subscriptions/listen': 'mcp_subscription',
  'tasks/get': 'mcp_task',
  'tasks/update': 'mcp_task',
  'tasks/result': 'mcp_task',
  'tasks/list': 'mcp_task',
  'tasks/cancel': 'mcp_task',
  'notifications/roots/list_changed': 'mcp_roots_list_changed',
} as const

const ENDPOINT_EVENTS = [
  'mcp_notification',
  'mcp_response',
  'mcp_request',
  'sse_connection',
  'session_started',
  'session_ended',
  'authentication_failed',
  'http_request',
  'definition_withheld',
] as const

const WORKFLOW_EVENTS = [
  'vmcp_workflow_started',
  'vmcp_workflow_completed',
  'vmcp_workflow_failed',
  'vmcp_workflow_timed_out',
  'vmcp_workflow_step_started',
  'vmcp_workflow_step_completed',
  'vmcp_workflow_step_failed',
  'vmcp_workflow_step_skipped',
] as const

const AUTH_SERVER_EVENTS = [
  'oauth_registration',
  'oauth_authorization',
  'oauth_consent',
  'oauth_provider_login',
  'oauth_login',
  'oauth_provider_link',
  'oauth_token_issue',
  'oauth_token_refresh',
  'oauth_refresh_reuse',
  'oauth_token_exchange',
  'oauth_assertion',
  'oauth_token_revocation',
  'oauth_introspection',
  'client_key_changed',
  'account_sign_in',
  'account_sign_out',
  'account_unlink',
  'account_revoke',
  'key_set',
  'key_replaced',
  'key_deleted',
  'key_refused',
] as const

const COMMON_EVENTS = ['config_reload', 'audit_events_lost'] as const

const REGISTRY_EVENTS = ['registry_read', 'registry_write', 'registry_sync', 'authentication_failed'] as const

export type AuditEventType =
  | (typeof METHOD_EVENTS)[keyof typeof METHOD_EVENTS]
  | (
      | typeof ENDPOINT_EVENTS
      | typeof WORKFLOW_EVENTS
      | typeof AUTH_SERVER_EVENTS
      | typeof COMMON_EVENTS
      | typeof REGISTRY_EVENTS
    )[number]

/** The events that a gateway or a proxy writes. */
export const gatewayEvents: ReadonlySet<string> = new Set<AuditEventType>([
  ...Object.values(METHOD_EVENTS),
  ...ENDPOINT_EVENTS,
  ...WORKFLOW_EVENTS,
  ...AUTH_SERVER_EVENTS,
  ...COMMON_EVENTS,
])

export const registryEvents: ReadonlySet<string> = new Set<AuditEventType>([...REGISTRY_EVENTS, ...COMMON_EVENTS])
