-- Without Redis, reservations of rate budgets are ended by the API. It could not delete them, so that they counted as charges.
grant delete on budget_spends to bursar_api;
