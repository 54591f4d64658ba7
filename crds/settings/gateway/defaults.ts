/** Defaults that both schemas and code use. This file loads no schema, because every gateway loads it. */

/** The longest wait for an embedding service. */
export const SERVICE_TIMEOUT = '30s'
/** The prefix of tool names under the conflict resolution `prefix`. */
export const TOOL_PREFIX = '{workload}_'
/** The number of bytes of a body in an audit log. */
export const AUDIT_DATA_BYTES = 1024
/** The number of links of a delegation chain in an audit log. */
export const AUDIT_DELEGATION_DEPTH = 10
/** The claim that chooses an AWS role. */
export const ROLE_CLAIM = 'groups'
