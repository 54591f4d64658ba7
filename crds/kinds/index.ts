import type { KindDeclaration } from '../define.ts'
import { mcpAuthzConfig } from './mcp-authz-config.ts'
import { mcpExternalAuthConfig } from './mcp-external-auth-config.ts'
import { mcpGroup } from './mcp-group.ts'
import { mcpOidcConfig } from './mcp-oidc-config.ts'
import { mcpPin } from './mcp-pin.ts'
import { mcpRegistry } from './mcp-registry.ts'
import { mcpRemoteProxy } from './mcp-remote-proxy.ts'
import { mcpServer } from './mcp-server.ts'
import { mcpServerEntry } from './mcp-server-entry.ts'
import { mcpTelemetryConfig } from './mcp-telemetry-config.ts'
import { mcpToolConfig } from './mcp-tool-config.ts'
import { virtualMcpCompositeToolDefinition } from './virtual-mcp-composite-tool-definition.ts'
import { virtualMcpServer } from './virtual-mcp-server.ts'

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
  MCPPin: mcpPin,
} as const

export type KindName = keyof typeof kinds

/** Returns the declaration of a kind by name, or undefined if the kind isn't ours. */
export const findKind = (name: string): KindDeclaration | undefined =>
  Object.hasOwn(kinds, name) ? kinds[name as KindName] : undefined

export * from './mcp-authz-config.ts'
export * from './mcp-external-auth-config.ts'
export * from './mcp-group.ts'
export * from './mcp-oidc-config.ts'
export * from './mcp-pin.ts'
export * from './mcp-registry.ts'
export * from './mcp-remote-proxy.ts'
export * from './mcp-server.ts'
export * from './mcp-server-entry.ts'
export * from './mcp-telemetry-config.ts'
export * from './mcp-tool-config.ts'
export * from './virtual-mcp-composite-tool-definition.ts'
export * from './virtual-mcp-server.ts'
