/** The kinds of Portico: what others import from here. */
import type { KindDeclaration } from './define.ts'
import { mcpAuthzConfig } from './kinds/mcp-authz-config.ts'
import { mcpExternalAuthConfig } from './kinds/mcp-external-auth-config.ts'
import { mcpGroup } from './kinds/mcp-group.ts'
import { mcpOidcConfig } from './kinds/mcp-oidc-config.ts'
import { mcpRegistry } from './kinds/mcp-registry.ts'
import { mcpRemoteProxy } from './kinds/mcp-remote-proxy.ts'
import { mcpServer } from './kinds/mcp-server.ts'
import { mcpServerEntry } from './kinds/mcp-server-entry.ts'
import { mcpTelemetryConfig } from './kinds/mcp-telemetry-config.ts'
import { mcpToolConfig } from './kinds/mcp-tool-config.ts'
import { virtualMcpCompositeToolDefinition } from './kinds/virtual-mcp-composite-tool-definition.ts'
import { virtualMcpServer } from './kinds/virtual-mcp-server.ts'

export const kinds = {
  MCPServer: mcpServer,
  MCPRemoteProxy: mcpRemoteProxy,
  MCPServerEntry: mcpServerEntry,
  MCPGroup: mcpGroup,
  VirtualMCPServer: virtualMcpServer,
  VirtualMCPCompositeToolDefinition: virtualMcpCompositeToolDefinition,
  MCPOIDCConfig: mcpOidcConfig,
  MCPExternalAuthConfig: mcpExternalAuthConfig,
  MCPAuthzConfig: mcpAuthzConfig,
  MCPToolConfig: mcpToolConfig,
  MCPTelemetryConfig: mcpTelemetryConfig,
  MCPRegistry: mcpRegistry,
} as const

export type KindName = keyof typeof kinds

/** The declaration of a kind by name; undefined where the kind isn't ours. */
export const kindNamed = (name: string): KindDeclaration | undefined =>
  Object.hasOwn(kinds, name) ? kinds[name as KindName] : undefined

export type { KindDeclaration, ObjectMeta, ObjectOf } from './define.ts'
export type { MCPAuthzConfig } from './kinds/mcp-authz-config.ts'
export type { MCPExternalAuthConfig } from './kinds/mcp-external-auth-config.ts'
export type { MCPGroup } from './kinds/mcp-group.ts'
export type { MCPOIDCConfig } from './kinds/mcp-oidc-config.ts'
export type { MCPRegistry } from './kinds/mcp-registry.ts'
export type { MCPRemoteProxy } from './kinds/mcp-remote-proxy.ts'
export type { MCPServer } from './kinds/mcp-server.ts'
export type { MCPServerEntry } from './kinds/mcp-server-entry.ts'
export type { MCPTelemetryConfig } from './kinds/mcp-telemetry-config.ts'
export type { MCPToolConfig } from './kinds/mcp-tool-config.ts'
export type { VirtualMCPCompositeToolDefinition } from './kinds/virtual-mcp-composite-tool-definition.ts'
export type { VirtualMCPServer } from './kinds/virtual-mcp-server.ts'
export {
  mcpAuthzConfig,
  mcpExternalAuthConfig,
  mcpGroup,
  mcpOidcConfig,
  mcpRegistry,
  mcpRemoteProxy,
  mcpServer,
  mcpServerEntry,
  mcpTelemetryConfig,
  mcpToolConfig,
  virtualMcpCompositeToolDefinition,
  virtualMcpServer,
}
