export {
  ApiError, Buried, ChangedError, Client, ConflictError, ForbiddenError, GroupClosedError, InvalidError, LeaseOverError,
  NotFoundError, RateLimitedError, Released, SignatureError, UnauthorizedError, UnavailableError, UnreachableError,
  UnreadableError, WakecallError, verify,
} from "./index.js";
