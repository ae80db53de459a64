#!/bin/sh
# Run once by the image of PostgreSQL, when its data is made: an owner for migrations and restores, a login for those who serve, one database.
set -eu
# Passwords are read from the environment, so that no list of processes shows them.
psql --no-psqlrc --set ON_ERROR_STOP=1 --username "${POSTGRES_USER:-postgres}" --dbname postgres <<'SQL'
\getenv owner_password OWNER_PASSWORD
\getenv login_password LOGIN_PASSWORD
create role bursar_owner login createrole createdb password :'owner_password';
create role bursar_login login password :'login_password';
create database bursar owner bursar_owner;
revoke all on database bursar from public;
grant connect on database bursar to bursar_login;
SQL
