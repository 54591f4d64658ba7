/** Longest wait for an embedding service where nothing is said of it. Without a schema: every gateway loads it. */
export const SERVICE_TIMEOUT = '30s'
