import { authorizationMatrix } from './matrix.ts'

authorizationMatrix('the matrix of roles and claims holds on SQLite', async () => ({}))
